"""The names of the pages of documentation."""

from importlib.resources import files


def help_topics() -> frozenset[str]:
    """Return the names of all pages."""
    found = (files("orchestrator") / "help").iterdir()
    return frozenset(file.name.removesuffix(".md") for file in found if file.name.endswith(".md"))
