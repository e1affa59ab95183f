"""What a family of pipelines tells the engine, which knows no family by name."""
