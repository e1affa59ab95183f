"""The daemon watches itself: what hangs is told, and the service manager starts a daemon again that does not go on."""
