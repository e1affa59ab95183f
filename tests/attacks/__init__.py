"""Hostile agents and checks: what they can do to a daemon, to its user and to each other."""
