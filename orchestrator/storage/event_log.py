"""Read committed decisions in order: of all tasks through the index, or of one task from its journal.

The index gives each decision its number and tells where its line ends in the task's journal. A reader keeps nothing but
a cursor, so a slow reader costs nothing and misses nothing: what it has not read yet waits on disk. A decision that
cannot be read is reported as a gap.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import LARGEST_DOCUMENT, open_regular, parsed
from orchestrator.storage.event_index import EventIndex, IndexEntry
from orchestrator.storage.journal import NAME
from orchestrator.storage.records import Cursor, EventGap, EventRecord, Events
from orchestrator.storage.task_files import FolderTaskFiles

BLOCK = 32 * 1024
"""Bytes of journals that are read at once; a longer line takes more."""


class FolderEventLog:
    """The decisions of all tasks of one data folder; written by the store, read from any thread. Raises UnfitIndex."""

    def __init__(self, data_dir: Path, files: FolderTaskFiles) -> None:
        self._index, self._files = EventIndex(data_dir, files.root), files
        self.written = 0

    @property
    def last(self) -> int:
        return self._index.last

    def append(self, task: Task, event: Event, end: int, size: int) -> None:
        """Number a decision whose line of `size` bytes in the task's journal is on disk and ends at byte `end`."""
        self.written += size
        self._index.add(stamp(event.at), task.id, task.seq, end)

    def flush(self) -> None:
        """Write the numbers of the decisions that were appended so far."""
        self._index.flush()

    def after(self, number: int) -> Cursor:
        return self._index.after(number)

    def since(self, at: str) -> Cursor:
        return self._index.since(at)

    def read(self, cursor: Cursor) -> Events:
        number, last = cursor.number, self._index.last
        if number > last:
            gap = EventGap(number=last, reason=f"there is no event {number} yet; {last} is last")
            return [gap], self._index.after(last)
        entries, cursor = self._index.read(cursor)
        found: list[EventRecord | EventGap] = []
        size = 0
        for entry in entries:
            if size >= BLOCK:
                return found, self._index.after(number)
            if entry.number != number + 1:
                reason = f"the index has lost the events from {number + 1} on"
                found.append(EventGap(number=entry.number - 1, reason=reason))
            number = entry.number
            decision, length = self._decision(entry)
            found.append(decision)
            size += length
        return found, cursor

    def read_task(self, task_id: str, cursor: Cursor) -> Events:
        lines = _lines_from(self._files.path_of(task_id, NAME), cursor.at)
        number, at, found = cursor.number, cursor.at, list[EventRecord | EventGap]()
        for raw in lines:
            at += len(raw)
            for one in _numbered(task_id, parsed(raw), number + 1):
                found.append(one)
                number = one.number
        return found, Cursor(number=number, at=at)

    def _decision(self, entry: IndexEntry) -> tuple[EventRecord | EventGap, int]:
        """Return a decision, and how many bytes its line has."""
        raw = _line_ending_at(self._files.root / entry.task / NAME, entry.end)
        line = parsed(raw)
        if line is None and not self._files.path_of(entry.task).exists():
            reason = f"{entry.task} was deleted, and its events with it"
            return EventGap(number=entry.number, reason=reason, deleted=True), 0
        if line is None or (line.get("task_id"), line.get("seq")) != (entry.task, entry.seq):
            gap = EventGap(number=entry.number, reason=f"the journal of {entry.task} has lost decision {entry.seq}")
            return gap, len(raw)
        return EventRecord(number=entry.number, line=line), len(raw)


def _numbered(task_id: str, line: JsonObject | None, expected: int) -> Iterator[EventRecord | EventGap]:
    """Yield a line of a journal with its number, after a gap if it is not the expected decision."""
    seq = line.get("seq") if line is not None and line.get("task_id") == task_id else None
    reason = f"the journal of {task_id} has lost decision {expected}"
    if line is None or not isinstance(seq, int):
        yield EventGap(number=expected, reason=reason)
        return
    if seq != expected:
        yield EventGap(number=seq - 1, reason=reason)
    yield EventRecord(number=seq, line=line)


def _line_ending_at(path: Path, end: int) -> bytes:
    """Return a journal's line that ends at a byte; nothing if there is none."""
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
    """Return a part of a regular file; nothing if there is none."""
    try:
        file = open_regular(path)
    except OSError:
        return b""
    try:
        return os.pread(file, length, begin)
    finally:
        os.close(file)
