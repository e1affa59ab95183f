"""Who did what: the decisions that a person, a token or an agent asked for, newest first.

They are found in the order of all events, read backwards a stretch at a time. A page ends after so many entries or
after so many decisions were looked at, whichever comes first, and says where the next one begins.
"""

from dataclasses import dataclass

from orchestrator.core.events.event_text import describe_event
from orchestrator.daemon.history.aside import aside
from orchestrator.formats.codec import JsonObject
from orchestrator.storage.records import Cursor, EventRecord
from orchestrator.supervisor.protocols import EventLog

STRETCH = 500
"""How many decisions are read at a time."""
MOST_LOOKED_AT = 2000
"""How many decisions one page looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A decision that somebody asked for: its number in the order of all events, when, as a stamp, who, and what."""

    number: int
    at: str
    task: str
    seq: int
    by: str
    trigger: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Which decisions are wanted: before a number, of whoever's name contains `by` in any case, of one task."""

    before: int | None = None
    by: str = ""
    task: str = ""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Decisions, newest first; older ones are `before` that number, None at the end. `lost` could not be read."""

    entries: tuple[AuditEntry, ...]
    before: int | None
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditService:
    """The use case of the audit."""

    events: EventLog

    async def page(self, query: AuditQuery) -> AuditPage:
        """Return one page."""
        return await aside(self._page, query)

    def _page(self, query: AuditQuery) -> AuditPage:
        end = self.events.last + 1 if query.before is None else min(query.before, self.events.last + 1)
        lowest = max(0, end - 1 - MOST_LOOKED_AT)
        found: list[AuditEntry] = []
        lost = 0
        while end > lowest + 1:
            begin = max(lowest, end - 1 - STRETCH)
            records, missing = self._stretch(begin, end)
            lost += missing
            for one in reversed(records):
                entry = _entry(one.number, one.line)
                if entry is not None and _fits(entry, query):
                    found.append(entry)
                    if len(found) == query.limit:
                        return AuditPage(entries=tuple(found), before=one.number if one.number > 1 else None, lost=lost)
            end = begin + 1
        return AuditPage(entries=tuple(found), before=end if end > 1 else None, lost=lost)

    def _stretch(self, begin: int, end: int) -> tuple[list[EventRecord], int]:
        """Return the decisions after one number and before another, and how many of them cannot be read."""
        cursor: Cursor = self.events.after(begin)
        records: list[EventRecord] = []
        while cursor.number < end - 1:
            found, cursor = self.events.read(cursor)
            if not found:
                break
            records += [one for one in found if isinstance(one, EventRecord) and begin < one.number < end]
        return records, end - 1 - begin - len(records)


def _entry(number: int, line: JsonObject) -> AuditEntry | None:
    """Return a decision as an entry; None if nobody asked for it, or the line has another form."""
    event = line.get("event")
    by = _who(event) if isinstance(event, dict) else ""
    seq = line.get("seq")
    if not by or not isinstance(seq, int):
        return None
    trigger = str(line.get("trigger"))
    return AuditEntry(
        number=number,
        at=str(line.get("timestamp")),
        task=str(line.get("task_id")),
        seq=seq,
        by=by,
        trigger=trigger,
        text=describe_event(trigger, event),
    )


def _who(event: JsonObject) -> str:
    """Return who asked for a decision; empty for the daemon's own."""
    by = event.get("by")
    return by if isinstance(by, str) else ""


def _fits(entry: AuditEntry, query: AuditQuery) -> bool:
    return (not query.task or entry.task == query.task) and query.by.casefold() in entry.by.casefold()
