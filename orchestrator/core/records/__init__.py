"""What a task looks like to people and programs that read files: documents derived from its state."""
