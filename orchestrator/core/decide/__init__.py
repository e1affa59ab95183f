"""The state machine: one handler per event, and the obligations that follow from a state."""
