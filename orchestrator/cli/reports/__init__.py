"""Commands that report on everything at once."""
