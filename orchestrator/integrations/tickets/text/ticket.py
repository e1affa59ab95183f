"""A ticket as a requirement, whatever its source: its text made safe to read, and what is known besides the text.

What is said in comments is quoted, so that none of it can pass for a section of the ticket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import LOCAL, TicketType
from orchestrator.formats.markdown import cleaned, open_fence, visible
from orchestrator.integrations.errors import NoTicket
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import LARGEST_TEXT

MOST_COMMENTS = 100
LONGEST_COMMENT = 16 * 1024
"""Characters; a longer comment is cut, with a note."""
COMMENT_BY = "Comment by "
"""Begins the heading of a comment. Such a heading is never a section of the ticket, whatever its author is called."""
MOST_NAMES = 100
"""Labels and attachments that are named."""

_ROOM = LARGEST_TEXT - 4096
"""Bytes for everything except the notes about what was left out."""


def _in_utc(value: object) -> object:
    """Return a time with its zone; Jira writes +0000 where others write +00:00."""
    if not isinstance(value, str):
        return value
    if not value:
        return None
    at = datetime.fromisoformat(value)
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)


Moment = Annotated[datetime | None, BeforeValidator(_in_utc)]
"""A time in a tracker's answer, in UTC."""


class TrackerRecord(BaseModel):
    """A part of a tracker's answer; any field may be missing, and fields that we do not read are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Named(TrackerRecord):
    """Anything in a tracker's answer that has a name."""

    name: str = ""


class Tracker(StrEnum):
    """A kind of issue tracker."""

    JIRA = "jira"
    GITHUB = "github"
    GITLAB = "gitlab"


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketComment:
    """A comment on a ticket, in Markdown."""

    author: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a ticket asks for; `text` is Markdown, whose first line serves as title if `title` is "".

    `key`, `type` and `priority` are None if the ticket does not say, `tracker` if a person submitted a text.
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
        """The source of the ticket, as in ticket.json."""
        return self.tracker.value if self.tracker else LOCAL


def readable(text: str, source: str = "the ticket") -> str:
    """Return the text if it can be a ticket. Raises NoTicket, which names `source`.

    A NUL byte is the sign of a binary file, a surrogate that of bytes that are not UTF-8. The size limit is in bytes.
    """
    if not text.strip():
        raise NoTicket(f"{source} is empty; say what is to be done")
    if len(text.encode("utf-8", "surrogatepass")) > LARGEST_TEXT:
        raise NoTicket(f"{source} is larger than {LARGEST_TEXT // 1024} KiB; put long material into the repository")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise NoTicket(f"{source} is not text; give plain UTF-8, for example Markdown")
    return text


def names(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the first `MOST_NAMES` names that are not empty, each as one safe line."""
    cut = (escape_text(" ".join(cleaned(text[:1000]).split())) for text in texts[:MOST_NAMES])
    return tuple(filter(None, cut))


def one_name(text: str | None) -> str:
    """Return a name as one safe line; "" if there is none."""
    return "".join(names([text or ""]))


def squeezed(text: str) -> str:
    """Return a text in a form that survives a tracker's changes of spaces and line ends."""
    return " ".join(text.split())


def composed(
    description: str, comments: Sequence[TicketComment], attachments: Sequence[str] = (), source: str = ""
) -> str:
    """Return one Markdown text: the description, names of attachments, and the newest comments that fit, oldest first.

    Raises NoTicket, which names `source`, if the description alone is too large.
    """
    parts = [_closed(readable(description.strip("\n"), source))]
    if attachments:
        named = [f"- {name.replace('`', '')}" for name in names(attachments)]
        parts.append("\n".join(["# Attachments", "", "They are named here and were not fetched.", "", *named]))
    room = _ROOM - sum(len(part.encode()) + 2 for part in parts)
    shown: list[str] = []
    for comment in sorted(comments, key=_age, reverse=True)[:MOST_COMMENTS]:
        one = _shown(comment)
        room -= len(one.encode()) + 2
        if room < 0:
            break
        shown.append(one)
    if comments:
        parts.append("# Comments")
    if len(shown) < len(comments):
        parts.append("Older or longer ones are left out.")
    return "\n\n".join([*parts, *reversed(shown)]) + "\n"


def _closed(markdown: str) -> str:
    """Return the text with its last code block closed, so that it does not swallow what follows."""
    fence = ""
    for line in markdown.split("\n"):
        fence = open_fence(line, fence)
    return f"{markdown}\n{'{code}' if fence == '{' else fence.lstrip()}" if fence else markdown


def _age(comment: TicketComment) -> float:
    return comment.at.timestamp() if comment.at else 0.0


def _shown(comment: TicketComment) -> str:
    text = visible(comment.text).strip()
    if len(text) > LONGEST_COMMENT:
        text = f"{text[:LONGEST_COMMENT]}\n… ({len(text) - LONGEST_COMMENT} more characters are left out)"
    author = one_name(comment.author) or "somebody"
    when = f", {comment.at:%Y-%m-%d %H:%M}" if comment.at else ""
    quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    return f"### {COMMENT_BY}{author}{when}\n\n{quoted}"
