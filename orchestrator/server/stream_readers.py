"""Readers of decisions, one for each open stream: over all tasks by the index, or one task's own by its journal.

A reader keeps nothing but how far it has read. So one that is slow costs nothing and misses nothing: what it did not
take yet waits on disk. What cannot be read there is told as a gap.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import LARGEST_DOCUMENT, parsed
from orchestrator.redaction.display import escape_text
from orchestrator.server.routes.records import masked
from orchestrator.server.schemas.streams import EventView, GapView
from orchestrator.server.schemas.views import to_view
from orchestrator.storage.event_index import Cursor, EventIndex
from orchestrator.storage.event_text import describe_event
from orchestrator.storage.journal import NAME

BLOCK = 64 * 1024
"""Bytes of a journal that are read at once; a longer line takes more."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Told = EventView | GapView


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRenderer:
    """How decisions are told: freed of secrets, and with all that they changed or without."""

    redact: Callable[[str], str]
    whole: bool

    def told(self, number: int, line: JsonObject) -> Told:
        """A journal's line as an event of a stream; one that is none of ours is a gap."""
        try:
            return self._event(number, line)
        except (KeyError, TypeError, ValueError) as error:
            return GapView(number=number, reason=f"a line of a journal is damaged: {escape_text(repr(error))}")

    def _event(self, number: int, line: JsonObject) -> EventView:
        facts = {name: line[name] for name in ("seq", "timestamp", "type", "from", "to", "trigger", "metadata")}
        happened = line["event"]
        words = {"number": number, "task": line["task_id"], "text": describe_event(str(line["trigger"]), happened)}
        more = {"event": happened, "change": line["change"]} if self.whole else {}
        return to_view(EventView, {**facts, **words, **cast(JsonObject, masked(more, self.redact))}, self.redact)


class AllDecisions:
    """The decisions of all tasks behind a mark, in the order of the index."""

    def __init__(self, index: EventIndex, mark: Cursor, tasks_dir: Path, telling: EventRenderer) -> None:
        self._index, self._mark, self._tasks_dir, self._telling = index, mark, tasks_dir, telling

    @property
    def number(self) -> int:
        """Behind which number it goes on."""
        return self._mark.number

    def read(self) -> list[Told]:
        """The next ones, none only at the end. Blocks for the disk."""
        return list(self._read())

    def _read(self) -> Iterator[Told]:
        number = self._mark.number
        if number > self._index.last:
            yield GapView(number=self._index.last, reason=f"there is no event {number} yet; {self._index.last} is last")
            self._mark = self._index.after(self._index.last)
            return
        entries, self._mark = self._index.read(self._mark)
        for entry in entries:
            if entry.number != number + 1:
                yield GapView(number=entry.number - 1, reason=f"the index has lost the events from {number + 1} on")
            number = entry.number
            line = parsed(_line_ending_at(self._tasks_dir / entry.task / NAME, entry.end))
            if line is None or (line.get("task_id"), line.get("seq")) != (entry.task, entry.seq):
                yield GapView(number=number, reason=f"the journal of {entry.task} has lost decision {entry.seq}")
            else:
                yield self._telling.told(number, line)


class OwnDecisions:
    """The decisions of one task after a number and from a time on, given as a stamp, in their order."""

    def __init__(self, folder: Path, after: int, since: str, telling: EventRenderer) -> None:
        self._path, self._task, self._telling = folder / NAME, folder.name, telling
        self._after, self._since, self._at, self._seq = after, since, 0, 0

    @property
    def number(self) -> int:
        """Behind which number it goes on."""
        return max(self._after, self._seq)

    def read(self) -> list[Told]:
        """The next ones, none only at the end. Blocks for the disk."""
        found: list[Told] = []
        while not found and (lines := _lines_from(self._path, self._at)):
            for raw in lines:
                self._at += len(raw)
                found += self._tell(parsed(raw))
        return found

    def _tell(self, line: JsonObject | None) -> Iterator[Told]:
        expected = self._seq + 1
        seq = line.get("seq") if line is not None and line.get("task_id") == self._task else None
        self._seq = seq if isinstance(seq, int) else expected
        if self._seq <= self._after:
            return
        if seq != expected:
            last = self._seq if seq is None else self._seq - 1
            yield GapView(number=last, reason=f"the journal of {self._task} has lost decision {expected}")
        if line is not None and seq is not None and str(line.get("timestamp")) >= self._since:
            yield self._telling.told(self._seq, line)


def _line_ending_at(path: Path, end: int) -> bytes:
    """A journal's line that ends at a byte; nothing if there is none."""
    length, begin, content = BLOCK, end, b""
    while b"\n" not in content[:-1] and begin > 0 and length <= LARGEST_DOCUMENT:
        begin = max(0, end - length)
        content = _part(path, begin, end - begin)
        length *= 4
    return content[content.rfind(b"\n", 0, -1) + 1 :] if begin + len(content) == end else b""


def _lines_from(path: Path, begin: int) -> list[bytes]:
    """Some whole lines of a journal from a byte on, none only at the end."""
    length = BLOCK
    content = _part(path, begin, length)
    while b"\n" not in content and len(content) == length <= LARGEST_DOCUMENT:
        length *= 4
        content = _part(path, begin, length)
    return content[: content.rfind(b"\n") + 1].splitlines(keepends=True)


def _part(path: Path, begin: int, length: int) -> bytes:
    """A part of a plain file, whatever else may lie in its place; nothing if it is not there."""
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return b""
    try:
        return os.pread(file, length, begin) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
