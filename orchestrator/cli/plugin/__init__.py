"""The plugin for Claude Code, whose slash commands call this program; `files` holds it as it is installed."""
