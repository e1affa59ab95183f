"""Git repositories and worktrees of tasks, agents' outboxes, checkpoints; evaluation/ runs and judges checks."""
