"""Commands for several tasks at once, and words that mean a choice."""
