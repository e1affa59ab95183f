"""What takes space in the data folder, what of it may go, and removing that without disturbing anybody."""
