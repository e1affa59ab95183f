"""What comes in by itself."""
