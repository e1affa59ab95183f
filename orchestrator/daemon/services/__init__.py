"""What people and programs can ask of a daemon: one class per subject, one method per use case.

REST routes call them today; pages, MCP and other machines will call the same. A use case takes names and plain values,
finds the task, has the supervisor decide, and returns the core's values; whoever called it renders them. It raises the
errors listed in errors.py, and nothing has changed then unless it says otherwise.
"""
