"""Large files and whole folders: compressed, measured, removed."""
