"""The loop: inbox, decide, commit, dispatch; the only writer of tasks."""
