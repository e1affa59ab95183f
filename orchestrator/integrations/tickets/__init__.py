"""Trackers that tickets come from and results are reported to: Jira, GitHub, GitLab."""
