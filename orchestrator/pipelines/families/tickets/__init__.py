"""Tickets: the original state.json of a workspace without a daemon, and where its work goes on."""
