"""How far the journal of a task is copied, and what of the task's other files the journal cannot know at that place."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import open_regular, parsed, read_file
from orchestrator.storage.journal import CHECKPOINTS
from orchestrator.storage.journal import NAME as JOURNAL
from orchestrator.storage.state_file import NAME as STATE

TAIL = 64 * 1024
"""Bytes at the end of a file in which a line's end is looked for."""
ENDED = frozenset(status.value for status in TaskStatus if status.is_final)


@dataclass(frozen=True, slots=True)
class Cut:
    """A journal's size up to its last whole line, and that line."""

    size: int = 0
    last: JsonObject = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        metadata = self.last.get("metadata")
        found = metadata.get("attempt") if isinstance(metadata, dict) else None
        return found if isinstance(found, int) else 0

    @property
    def is_ended(self) -> bool:
        metadata = self.last.get("metadata")
        return isinstance(metadata, dict) and metadata.get("status") in ENDED


def is_ahead(folder: Path, within: str, cut: Cut) -> bool:
    """Return whether a file of a task shows decisions after the cut of its journal."""
    parts = within.split("/")
    if within == STATE:
        return True
    if parts[0] == "agents" and len(parts) == 2 and parts[1].isdecimal():
        return int(parts[1]) > cut.attempt
    if parts[0] == CHECKPOINTS and len(parts) == 2:
        covered = (parsed(read_file(folder / within) or b"") or {}).get("journal_bytes")
        return isinstance(covered, int) and covered > cut.size
    return False


def cut_of(folder: Path) -> Cut:
    """Return how far a journal can be copied now; zero if there is none."""
    try:
        file = open_regular(folder / JOURNAL)
    except OSError:
        return Cut()
    try:
        end = end_of_last_line(file, os.fstat(file).st_size)
        begin = end_of_last_line(file, end - 1) if end else 0
        return Cut(end, cast(JsonObject, parsed(os.pread(file, end - begin, begin)) or {}))
    finally:
        os.close(file)


def end_of_last_line(file: int, size: int) -> int:
    """Return where the last whole line before a byte ends; zero if there is none."""
    for begin in _blocks_from_end(size):
        found = os.pread(file, min(TAIL, size - begin), begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return 0


def _blocks_from_end(size: int) -> Iterator[int]:
    while size > 0:
        size = max(0, size - TAIL)
        yield size
