"""What a task has to hand over, and how far it has come with it."""
