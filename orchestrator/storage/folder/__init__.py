"""The data folder as a whole: its format, and the lock that one daemon holds."""
