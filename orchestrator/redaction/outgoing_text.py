"""Check text before it is published in the daemon's name: titles, bodies, comments, commit messages.

A blocked text is empty and must not be sent. Every sender checks `verdict` first, for a title as for a body; if it is
BLOCKED, the sender stops, reports which rules matched in which lines, and keeps the text in quarantine. A redacted text
may be sent, though it is better to fix the artifact it came from. Characters that make a text display differently from
what it is are removed.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.redaction.display import remove_disguise
from orchestrator.redaction.rules import Finding, Redactor, Result


class TextKind(StrEnum):
    """The kind of place that a text is sent to."""

    TITLE = "title"
    """One line: of a pull request or of a commit message."""
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedText:
    """A text that may be sent; `findings` give rules and lines of the original text, never values."""

    text: str
    verdict: Result
    findings: tuple[Finding, ...] = ()


def sanitize(text: str, outlet: TextKind, redactor: Redactor) -> SanitizedText:
    """Return a text that may be sent to such a place, or an empty one if its verdict is BLOCKED."""
    scan = redactor.scan(text)
    clear = remove_disguise(scan.text)
    fit = " ".join(clear.split()) if outlet is TextKind.TITLE else clear
    return SanitizedText(text=fit, verdict=scan.result, findings=scan.findings)
