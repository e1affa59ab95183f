"""Services outside the daemon: ticket trackers, forges, notifications."""
