"""What begins by the clock in a simulation."""
