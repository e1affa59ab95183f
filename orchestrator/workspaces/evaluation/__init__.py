"""Which commands judge a commit, what their ends mean, and the report of it."""
