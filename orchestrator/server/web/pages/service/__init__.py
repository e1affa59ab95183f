"""Pages of what the service does by itself: schedules, work that comes in, notifications, disk and backups."""
