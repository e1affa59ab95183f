"""Sandboxes for runs: what a run may see of the machine, and the command of bubblewrap that shows it no more."""
