"""What one task did, as people read it: its journal, its time, what its agents said, what its branch changes."""
