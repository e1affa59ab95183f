"""An agent CLI, from its command line to neutral events."""
