"""Commands: one small module for each group, found by name in app.py."""
