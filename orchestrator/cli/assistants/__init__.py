"""Commands for assistants: programs that a person lets work with tasks."""
