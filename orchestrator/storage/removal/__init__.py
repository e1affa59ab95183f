"""Files of tasks are removed whole or not at all, and it is recorded what was removed."""
