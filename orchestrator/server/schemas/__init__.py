"""What the API takes and answers."""
