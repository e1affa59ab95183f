"""Restoring a backup so that its tasks go on, and making one every day."""
