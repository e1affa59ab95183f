"""Process trees that outlive the daemon: the holder, control groups, freeze and thaw."""
