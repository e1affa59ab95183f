"""Which files of ended tasks may go, by age, number and size; decided here, carried out by the daemon."""
