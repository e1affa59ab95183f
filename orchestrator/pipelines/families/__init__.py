"""One package per family of pipelines: what that family alone knows."""
