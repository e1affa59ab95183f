"""The shapes of work that comes in by itself, of schedules, and of repositories by address."""
