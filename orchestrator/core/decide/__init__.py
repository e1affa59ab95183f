"""The state machine: a handler for each event, and the commands that follow from a state."""
