"""What can be a ticket, wherever it comes from: its text made fit to be read, and what is known beside the text.

What is said in comments is quoted, so that none of it can pass for a section of the ticket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import TicketType
from orchestrator.errors import OrchestratorError
from orchestrator.formats.markdown import cleaned, open_fence, visible
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import LARGEST_TEXT

MOST_COMMENTS = 100
LONGEST_COMMENT = 16 * 1024
"""Characters; what is longer is cut, and says so."""
MOST_NAMES = 100
"""Labels and attachments that are named."""

_ROOM = LARGEST_TEXT - 4096
"""Bytes for all but the lines that say what was left out."""


class NoTicket(OrchestratorError):
    """A text cannot be a ticket."""


class Tracker(StrEnum):
    """A kind of place where tickets lie."""

    JIRA = "jira"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """What somebody said about a ticket, in Markdown."""

    author: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What is to be done, as a ticket says it; `text` is Markdown, and without a `title` its first line serves.

    `key`, `type` and `priority` are None where the ticket does not say, `tracker` where a person handed it in.
    """

    title: str
    text: str
    key: str | None = None
    type: TicketType | None = None
    priority: Priority | None = None
    tracker: Tracker | None = None
    url: str = ""
    labels: tuple[str, ...] = ()
    status: str = ""
    assignee: str = ""
    created: datetime | None = None
    updated: datetime | None = None

    @property
    def source(self) -> str:
        """Where it comes from, as ticket.json says it (sources.md §1.2)."""
        return self.tracker.value if self.tracker else "local"


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


def names(texts: Sequence[str]) -> tuple[str, ...]:
    """The first `MOST_NAMES` that say something, each as one line that can be shown."""
    cut = (escape_text(" ".join(cleaned(text[:1000]).split())) for text in texts[:MOST_NAMES])
    return tuple(filter(None, cut))


def composed(description: str, comments: Sequence[Comment], attachments: Sequence[str] = (), source: str = "") -> str:
    """One Markdown text of a description, the names of attachments and the newest comments that fit, oldest first.

    Raises NoTicket, naming `source`, if the description alone is too large.
    """
    parts = [_closed(readable(description.strip("\n"), source))]
    if attachments:
        named = [f"- {name.replace('`', '')}" for name in names(attachments)]
        parts.append("\n".join(["# Attachments", "", "They are named here and were not fetched.", "", *named]))
    room = _ROOM - sum(len(part.encode()) + 2 for part in parts)
    told: list[str] = []
    for comment in sorted(comments, key=_age, reverse=True)[:MOST_COMMENTS]:
        one = _told(comment)
        room -= len(one.encode()) + 2
        if room < 0:
            break
        told.append(one)
    if comments:
        parts.append("# Comments")
    if len(told) < len(comments):
        parts.append("Older or longer ones are left out.")
    return "\n\n".join([*parts, *reversed(told)]) + "\n"


def _closed(markdown: str) -> str:
    """The text with its last block of code closed, so that what follows it is none."""
    fence = ""
    for line in markdown.split("\n"):
        fence = open_fence(line, fence)
    return f"{markdown}\n{'{code}' if fence == '{' else fence.lstrip()}" if fence else markdown


def _age(comment: Comment) -> float:
    return comment.at.timestamp() if comment.at else 0.0


def _told(comment: Comment) -> str:
    text = visible(comment.text).strip()
    if len(text) > LONGEST_COMMENT:
        text = f"{text[:LONGEST_COMMENT]}\n… ({len(text) - LONGEST_COMMENT} more characters are left out)"
    author = "".join(names([comment.author])) or "somebody"
    when = f", {comment.at:%Y-%m-%d %H:%M}" if comment.at else ""
    quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    return f"### {author}{when}\n\n{quoted}"
