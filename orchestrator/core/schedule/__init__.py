"""Which tasks may run now, which must pause, and why a task waits."""
