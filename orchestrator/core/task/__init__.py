"""The nouns: a task, its agent, its steps, its budgets, what people are asked, and the pipeline it follows."""
