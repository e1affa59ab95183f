"""The HTTP API: the application, its listener, who calls, and its client."""
