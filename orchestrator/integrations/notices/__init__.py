"""Notices to people: what waits to be sent, on disk, and the channels that send it."""
