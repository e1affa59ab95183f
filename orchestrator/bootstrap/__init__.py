"""The life of the daemon's process, around the parts that wiring/ builds."""
