"""Text and data formats that know nothing of tasks: TOML, front matter, Markdown, JSON Patch, atomic file writes."""
