"""What is declared: pipelines, roles, their schemas and graphs."""
