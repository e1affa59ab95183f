"""What is decided: pure, without I/O, clock or processes."""
