"""What the agents of a work pass on to each other: dispatches, results and handoffs."""
