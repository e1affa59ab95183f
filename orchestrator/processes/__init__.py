"""Process trees that outlive the daemon: the holder, control groups, freezing and thawing."""
