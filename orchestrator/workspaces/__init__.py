"""Git: clones, worktrees, the outbox of an agent, checkpoints."""
