"""What goes out under the daemon's name, judged before anybody sees it: titles, bodies, comments, commit messages.

A blocked text is empty and must not be sent; whoever sends looks at `verdict` first, for a title as for a body, stops,
says which rules in which lines, and keeps the text (quarantine.py). A redacted one may go as it stands, though it is
better to mend the artifact it came from (sources.md §1.6). What makes a text read otherwise than it is, is taken out.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.disguise import without_disguise
from orchestrator.core.redact import Finding, Redactor, Result


class Outlet(StrEnum):
    """Where a text goes to."""

    TITLE = "title"
    """One line: of a pull request or of a commit message."""
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """A text as it may go out; `findings` tell rules and lines of the text as it was, never values."""

    text: str
    verdict: Result
    findings: tuple[Finding, ...] = ()


def sanitized(text: str, outlet: Outlet, redactor: Redactor) -> Sanitized:
    """A text fit to be sent to an outlet, or an empty one where its verdict is BLOCKED."""
    scan = redactor.scan(text)
    clear = without_disguise(scan.text)
    fit = " ".join(clear.split()) if outlet is Outlet.TITLE else clear
    return Sanitized(text=fit, verdict=scan.result, findings=scan.findings)
