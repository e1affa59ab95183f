"""Readers of events, one per open stream: over all tasks by the index, or of one task by its journal.

A reader keeps nothing but how far it has read. So a slow one costs nothing and misses nothing: what it has not read yet
waits on disk. An event that cannot be read there is reported as a gap.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import LARGEST_DOCUMENT, parsed
from orchestrator.redaction.display import escape_text
from orchestrator.storage.event_index import Cursor, EventIndex
from orchestrator.storage.event_text import describe_event
from orchestrator.storage.journal import NAME

BLOCK = 64 * 1024
"""Bytes of a journal that are read at once; a longer line takes more."""

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """A decision as its journal line; `number` counts within the stream, `text` words it for people."""

    number: int
    line: JsonObject
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGap:
    """Events that cannot be read, the last of them `number`, and why."""

    number: int
    reason: str


StreamItem = LoggedEvent | EventGap


class EventReader(Protocol):
    """Reads on behind a number."""

    @property
    def number(self) -> int:
        """The number of the event that was read last."""

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""


class AllEvents:
    """The events of all tasks behind a cursor, in the order of the index."""

    def __init__(self, index: EventIndex, cursor: Cursor, tasks_dir: Path) -> None:
        self._index, self._cursor, self._tasks_dir = index, cursor, tasks_dir

    @property
    def number(self) -> int:
        """The number of the event that was read last."""
        return self._cursor.number

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""
        return list(self._read())

    def _read(self) -> Iterator[StreamItem]:
        number = self._cursor.number
        if number > self._index.last:
            yield EventGap(
                number=self._index.last, reason=f"there is no event {number} yet; {self._index.last} is last"
            )
            self._cursor = self._index.after(self._index.last)
            return
        entries, self._cursor = self._index.read(self._cursor)
        for entry in entries:
            if entry.number != number + 1:
                yield EventGap(number=entry.number - 1, reason=f"the index has lost the events from {number + 1} on")
            number = entry.number
            line = parsed(_line_ending_at(self._tasks_dir / entry.task / NAME, entry.end))
            if line is None or (line.get("task_id"), line.get("seq")) != (entry.task, entry.seq):
                yield EventGap(number=number, reason=f"the journal of {entry.task} has lost decision {entry.seq}")
            else:
                yield _logged(number, line)


class TaskEvents:
    """The events of one task after a number and from a time on, which is given as a stamp."""

    def __init__(self, folder: Path, after: int, since: str) -> None:
        self._path, self._task = folder / NAME, folder.name
        self._after, self._since, self._at, self._seq = after, since, 0, 0

    @property
    def number(self) -> int:
        """The number of the event that was read last."""
        return max(self._after, self._seq)

    def read(self) -> list[StreamItem]:
        """Return the next events, none only at the end. Blocks."""
        found: list[StreamItem] = []
        while not found and (lines := _lines_from(self._path, self._at)):
            for raw in lines:
                self._at += len(raw)
                found += self._items(parsed(raw))
        return found

    def _items(self, line: JsonObject | None) -> Iterator[StreamItem]:
        expected = self._seq + 1
        seq = line.get("seq") if line is not None and line.get("task_id") == self._task else None
        self._seq = seq if isinstance(seq, int) else expected
        if self._seq <= self._after:
            return
        if seq != expected:
            last = self._seq if seq is None else self._seq - 1
            yield EventGap(number=last, reason=f"the journal of {self._task} has lost decision {expected}")
        if line is not None and seq is not None and str(line.get("timestamp")) >= self._since:
            yield _logged(self._seq, line)


def damaged_line(error: Exception) -> str:
    """Return why a line of a journal cannot be shown as an event."""
    return f"a line of a journal is damaged: {escape_text(repr(error))}"


def _logged(number: int, line: JsonObject) -> StreamItem:
    try:
        return LoggedEvent(number=number, line=line, text=describe_event(str(line["trigger"]), line["event"]))
    except (KeyError, TypeError, ValueError) as error:
        return EventGap(number=number, reason=damaged_line(error))


def _line_ending_at(path: Path, end: int) -> bytes:
    """Return the journal line that ends at a byte; empty if there is none."""
    length, begin, content = BLOCK, end, b""
    while b"\n" not in content[:-1] and begin > 0 and length <= LARGEST_DOCUMENT:
        begin = max(0, end - length)
        content = _part(path, begin, end - begin)
        length *= 4
    return content[content.rfind(b"\n", 0, -1) + 1 :] if begin + len(content) == end else b""


def _lines_from(path: Path, begin: int) -> list[bytes]:
    """Return some whole lines of a journal from a byte on, none only at the end."""
    length = BLOCK
    content = _part(path, begin, length)
    while b"\n" not in content and len(content) == length <= LARGEST_DOCUMENT:
        length *= 4
        content = _part(path, begin, length)
    return content[: content.rfind(b"\n") + 1].splitlines(keepends=True)


def _part(path: Path, begin: int, length: int) -> bytes:
    """Return a part of a plain file; empty if there is none or something else is in its place."""
    try:
        file = os.open(path, _FLAGS)
    except OSError:
        return b""
    try:
        return os.pread(file, length, begin) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)
