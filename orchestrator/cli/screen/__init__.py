"""What the keys of the live screen do."""
