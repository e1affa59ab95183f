"""The doctor's examination: all checks at the same time, some of which ask the network, and when it is due."""
