"""Routes that show and keep in order what all tasks share."""
