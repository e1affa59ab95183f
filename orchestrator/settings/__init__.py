"""What can be set, where each value comes from, and the environment."""
