"""The daemon's own tools for its agents: the program that serves them, and what becomes of a call."""
