"""The tables of the settings, one module per subject."""
