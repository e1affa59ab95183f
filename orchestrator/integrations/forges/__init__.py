"""Pull requests, reviews, checks and merges on GitHub and GitLab."""
