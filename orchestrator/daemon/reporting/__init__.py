"""What a person reads about a task: its reports, and the summary at its end."""
