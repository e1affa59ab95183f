"""Commands for those who monitor the daemon."""
