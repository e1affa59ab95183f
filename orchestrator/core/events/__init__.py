"""What can happen to a task, and what it asks for in return."""
