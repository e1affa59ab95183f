"""A ticket submitted as a text: Markdown, with optional front matter."""

import re
from enum import StrEnum
from typing import TypeVar

from orchestrator.core.task.task import Priority
from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.front_matter import read_front_matter
from orchestrator.formats.table import DefinitionError, Table, nearest
from orchestrator.integrations.tickets.text.classifier import type_of
from orchestrator.integrations.tickets.text.reference import JIRA_KEY
from orchestrator.integrations.tickets.text.template import parse_template
from orchestrator.integrations.tickets.text.ticket import Requirement, names, one_name, readable

E = TypeVar("E", bound=StrEnum)

_MAY_BE_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n[ \t]*(?:[A-Za-z_-]+|<<)[ \t]*:")
"""A single line of dashes may be a horizontal rule."""


def from_text(text: str, source: str = "the ticket") -> Requirement:
    """Return the requirement of a Markdown text, whose front matter may have key, title, type, priority and labels.

    Without a title it is "", and the first line serves. Raises NoTicket, and DefinitionError with every problem of the
    front matter; both name `source`.
    """
    may_be = _MAY_BE_FRONT_MATTER.match(readable(text, source))
    read = read_front_matter(text, source) if may_be else None
    if read is None:
        return Requirement(title="", text=text, type=_type_said(text))
    front, body = read
    kind, priority = _one_of(front, "type", TicketType), _one_of(front, "priority", Priority)
    key, title = front.maybe_text("key"), front.maybe_text("title") or ""
    labels = front.texts("labels", ())
    if key is not None and front.is_text("key") and not JIRA_KEY.fullmatch(key):
        front.note("key", f"{key!r:.60} is no ticket key; write it like ABC-123, or leave it out")
    front.done()
    if front.report.problems:
        raise DefinitionError(front.report.in_order())
    return Requirement(
        key=key,
        title=one_name(title),
        text=readable(body, f"{source}, below its front matter,"),
        type=kind or type_of(labels=labels) or _type_said(body, title),
        priority=priority,
        labels=names(labels),
    )


def _type_said(text: str, title: str = "") -> TicketType | None:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return parse_template(text, title or first).type


def _one_of(front: Table, name: str, words: type[E]) -> E | None:
    word = front.maybe_text(name)
    if word is None:
        return None
    if word not in set(words):
        front.note(name, f"{name} cannot be {word!r:.60}; {nearest(word, [known.value for known in words])}")
        return None
    return words(word)
