"""How command lines are read: aliases, options in any place, completion."""
