"""Commands about the disk: what takes space, and removing what may go."""
