"""What must be known before a task's repositories are removed."""
