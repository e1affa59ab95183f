"""Commands about who may ask the daemon over TCP."""
