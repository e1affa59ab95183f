"""Which commands judge a commit, what their results mean, and the report about them."""
