"""What leaves a task's clone for the user's repository."""
