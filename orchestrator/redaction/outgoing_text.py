"""What goes out under the daemon's name, judged before anybody sees it: titles, bodies, comments, commit messages.

A blocked text is empty and must not be sent; whoever sends looks at `verdict` first, for a title as for a body, stops,
says which rules in which lines, and keeps the text (quarantine.py). A redacted one may go as it stands, though it is
better to mend the artifact it came from (sources.md §1.6). What makes a text read otherwise than it is, is taken out.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.redaction.rules import Finding, Redactor, Result
from orchestrator.redaction.unicode_cleanup import remove_disguise


class TextKind(StrEnum):
    """Where a text goes to."""

    TITLE = "title"
    """One line: of a pull request or of a commit message."""
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedText:
    """A text as it may go out; `findings` tell rules and lines of the text as it was, never values."""

    text: str
    verdict: Result
    findings: tuple[Finding, ...] = ()


def sanitize(text: str, outlet: TextKind, redactor: Redactor) -> SanitizedText:
    """A text fit to be sent to an outlet, or an empty one where its verdict is BLOCKED."""
    scan = redactor.scan(text)
    clear = remove_disguise(scan.text)
    fit = " ".join(clear.split()) if outlet is TextKind.TITLE else clear
    return SanitizedText(text=fit, verdict=scan.result, findings=scan.findings)
