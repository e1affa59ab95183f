"""Repositories that are named by an address: the daemon keeps a copy of each, from which tasks begin."""
