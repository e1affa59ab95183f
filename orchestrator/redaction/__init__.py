"""Find and mask secrets before text leaves the machine, and make foreign text safe. Linear in the text's length."""
