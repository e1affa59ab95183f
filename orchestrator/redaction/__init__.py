"""What must not leave the machine, and how text is made harmless before it does. Linear in the length of the text."""
