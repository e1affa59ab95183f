"""Changes of text: unified diffs and patches."""
