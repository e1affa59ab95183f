"""Readers of events, one per open stream: over all tasks, or of one task.

A reader keeps nothing but how far it has read. So a slow one costs nothing and misses nothing: what it has not read yet
waits in the store.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from orchestrator.core.events.event_text import describe_event
from orchestrator.formats.codec import JsonObject
from orchestrator.redaction.display import escape_text
from orchestrator.storage.records import Cursor, EventGap, EventRecord
from orchestrator.supervisor.protocols import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """A decision as its journal line; `number` counts within the stream, `text` words it for people."""

    number: int
    line: JsonObject
    text: str


StreamItem = LoggedEvent | EventGap


class EventReader(Protocol):
    """Reads on behind a number."""

    @property
    def number(self) -> int:
        """The number of the event that was read last."""

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""


class AllEvents:
    """The events of all tasks, or of some, behind a cursor, in the order in which they were committed."""

    def __init__(self, log: EventLog, cursor: Cursor, only: frozenset[str] = frozenset()) -> None:
        self._log, self._cursor, self._only = log, cursor, only

    @property
    def number(self) -> int:
        """The number of the event that was read last."""
        return self._cursor.number

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""
        wanted: list[StreamItem] = []
        while not wanted:
            found, self._cursor = self._log.read(self._cursor)
            if not found:
                break
            wanted = [_logged(one) for one in _with_deletions_once(found) if self._is_wanted(one)]
        return wanted

    def _is_wanted(self, one: EventRecord | EventGap) -> bool:
        """Return whether an event is sent; what a gap hides may be of any task."""
        return not self._only or isinstance(one, EventGap) or one.line.get("task_id") in self._only


class TaskEvents:
    """The events of one task after a number and from a time on, which is given as a stamp."""

    def __init__(self, log: EventLog, task_id: str, after: int, since: str) -> None:
        self._log, self._task_id, self._after, self._since = log, task_id, after, since
        self._cursor = Cursor(number=0)

    @property
    def number(self) -> int:
        """The number of the event that was read last."""
        return max(self._after, self._cursor.number)

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""
        wanted: list[StreamItem] = []
        while not wanted:
            found, self._cursor = self._log.read_task(self._task_id, self._cursor)
            if not found:
                break
            wanted = [_logged(one) for one in found if self._is_wanted(one)]
        return wanted

    def _is_wanted(self, one: EventRecord | EventGap) -> bool:
        is_early = isinstance(one, EventRecord) and str(one.line.get("timestamp")) < self._since
        return one.number > self._after and not is_early


def _with_deletions_once(found: Iterable[EventRecord | EventGap]) -> Iterator[EventRecord | EventGap]:
    """Yield what was read, with one gap for all events of a deleted task."""
    known: set[str] = set()
    for one in found:
        if isinstance(one, EventGap) and one.deleted:
            if one.reason in known:
                continue
            known.add(one.reason)
        yield one


def damaged_line(error: Exception) -> str:
    """Return why a line of a journal cannot be shown as an event."""
    return f"a line of a journal is damaged: {escape_text(repr(error))}"


def _logged(one: EventRecord | EventGap) -> StreamItem:
    if isinstance(one, EventGap):
        return one
    try:
        text = describe_event(str(one.line["trigger"]), one.line["event"])
    except (KeyError, TypeError, ValueError) as error:
        return EventGap(number=one.number, reason=damaged_line(error))
    return LoggedEvent(number=one.number, line=one.line, text=text)
