"""The text of a ticket: its source, its parts, its classification, its secrets."""
