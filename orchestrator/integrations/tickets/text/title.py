"""The title of a task, which may have to be found in its text."""

from orchestrator.integrations.tickets.text.ticket import Requirement

LONGEST_TITLE = 200
"""Characters; what is longer is cut."""


def title_of(given: str, requirement: Requirement) -> str:
    """Return the title given by the submission or the ticket, or the first line that is not just punctuation."""
    text = given or requirement.title or requirement.text
    lines = (line.lstrip("# ").strip() for line in text.splitlines())
    words = " ".join(next((line for line in lines if line.strip("-=*_ ")), "untitled").split())
    return words if len(words) <= LONGEST_TITLE else words[: LONGEST_TITLE - 1] + "…"
