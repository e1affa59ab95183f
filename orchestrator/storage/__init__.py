"""What is on disk: the journal, state.json, the order of events, sealed values, checkpoints."""
