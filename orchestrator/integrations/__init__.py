"""The outside: ticket trackers, forges, notifications."""
