"""Backups of a data folder: what belongs to one, taking it under a living daemon, reading it, and its format."""
