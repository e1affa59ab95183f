"""What the command line reads on the submitter's machine before it submits."""
