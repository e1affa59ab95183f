"""Routes of what an operator reads about the whole."""
