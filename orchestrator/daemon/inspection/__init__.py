"""What people look at beyond a task's own state: what needs them, what changed, and how the daemon is set up."""
