"""Readers of decisions, one for each open stream: over all tasks, or one task's own.

A reader keeps nothing but how far it has read, so one that is slow costs nothing and misses nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from orchestrator.formats.codec import JsonObject
from orchestrator.redaction.display import escape_text
from orchestrator.server.routes.records import masked
from orchestrator.server.schemas.streams import EventView, GapView
from orchestrator.server.schemas.views import to_view
from orchestrator.storage.event_text import describe_event
from orchestrator.storage.records import Cursor, EventGap, EventRecord
from orchestrator.supervisor.protocols import EventLog

Told = EventView | GapView


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRenderer:
    """How decisions are told: freed of secrets, and with all that they changed or without."""

    redact: Callable[[str], str]
    whole: bool

    def told(self, one: EventRecord | EventGap) -> Told:
        """A decision as an event of a stream; one that is none of ours is a gap."""
        if isinstance(one, EventGap):
            return GapView(number=one.number, reason=one.reason)
        try:
            return self._event(one.number, one.line)
        except (KeyError, TypeError, ValueError) as error:
            return GapView(number=one.number, reason=f"a line of a journal is damaged: {escape_text(repr(error))}")

    def _event(self, number: int, line: JsonObject) -> EventView:
        facts = {name: line[name] for name in ("seq", "timestamp", "type", "from", "to", "trigger", "metadata")}
        happened = line["event"]
        words = {"number": number, "task": line["task_id"], "text": describe_event(str(line["trigger"]), happened)}
        more = {"event": happened, "change": line["change"]} if self.whole else {}
        return to_view(EventView, {**facts, **words, **cast(JsonObject, masked(more, self.redact))}, self.redact)


class AllDecisions:
    """The decisions of all tasks behind a cursor, in the order in which they were committed."""

    def __init__(self, log: EventLog, begin: Cursor, telling: EventRenderer) -> None:
        self._log, self._cursor, self._telling = log, begin, telling

    @property
    def number(self) -> int:
        """Behind which number it goes on."""
        return self._cursor.number

    def read(self) -> list[Told]:
        """The next ones, none only at the end. Blocks for the disk."""
        found, self._cursor = self._log.read(self._cursor)
        return [self._telling.told(one) for one in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where the stream of one task begins: after this number, and not before this time, given as a stamp."""

    after: int
    since: str


class OwnDecisions:
    """The decisions of one task, in their order."""

    def __init__(self, log: EventLog, task_id: str, begin: Beginning, telling: EventRenderer) -> None:
        self._log, self._task_id, self._begin, self._telling = log, task_id, begin, telling
        self._cursor = Cursor(number=0)

    @property
    def number(self) -> int:
        """Behind which number it goes on."""
        return max(self._begin.after, self._cursor.number)

    def read(self) -> list[Told]:
        """The next ones, none only at the end. Blocks for the disk."""
        told: list[Told] = []
        while not told:
            found, self._cursor = self._log.read_task(self._task_id, self._cursor)
            if not found:
                break
            told = [self._telling.told(one) for one in found if self._is_wanted(one)]
        return told

    def _is_wanted(self, one: EventRecord | EventGap) -> bool:
        early = isinstance(one, EventRecord) and str(one.line.get("timestamp")) < self._begin.since
        return one.number > self._begin.after and not early
