"""The pages of one task. What they share is in header.py and templates/task/layout.html."""
