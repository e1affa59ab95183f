"""Phased tasks, as Claude Code Server has them: an application, a change to one, a workflow, or anything else."""
