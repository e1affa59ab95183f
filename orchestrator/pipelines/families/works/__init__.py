"""The family of pipelines for specified works: a requirement, a plan, and one verified commit for each task."""
