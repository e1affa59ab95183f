"""Trackers that tickets come from and that are told of results: Jira, GitHub, GitLab."""
