"""What is on disk: the journal, state.json, the order of events, a task's files, encrypted values, checkpoints."""
