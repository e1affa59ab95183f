"""The demonstration: a whole story in a throw-away repository."""
