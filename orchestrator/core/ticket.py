"""What can be a ticket's text, wherever it comes from."""

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.redact import LARGEST_TEXT


class NoTicket(OrchestratorError):
    """A text cannot be a ticket."""


def readable(text: str, source: str = "the ticket") -> str:
    """The text, if it can be a ticket; raises NoTicket, naming `source`.

    A NUL byte betrays a binary file, a surrogate bytes that were no UTF-8. The bound is in bytes (sources.md §1.5).
    """
    if not text.strip():
        raise NoTicket(f"{source} is empty; say what is to be done")
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_TEXT:
        raise NoTicket(f"{source} is larger than {LARGEST_TEXT // 1024} KiB; put long material into the repository")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise NoTicket(f"{source} is not text; give plain UTF-8, for example Markdown")
    return text
