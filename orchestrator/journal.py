"""The journal of one task: `journal.jsonl`, one line per decision, appended and on disk before anything else happens.

A line has the shape of seed 003's transition log, with the event whole and the change of the state as a JSON Patch
beside it. Reading it never runs a decision again: it only applies changes.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.codec import Json, stamp, to_json
from orchestrator.core.document import Object
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.events import Event
from orchestrator.core.model import Task
from orchestrator.core.patch import Operation, applied

NAME = "journal.jsonl"


class StoreError(OrchestratorError):
    """Something on disk could not be read or written."""


class DamagedJournal(StoreError):
    """A journal cannot be folded into a state."""


class TaskFolderGone(StoreError):
    """A task's folder was deleted while the task was alive."""


class Journal:
    """A task's journal while decisions are written to it; `end` is where its last whole line ends, in bytes."""

    def __init__(self, folder: Path, end: int = 0) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self.folder, self.end = folder, end
        self._descriptor = os.open(folder / NAME, flags, 0o600)
        os.ftruncate(self._descriptor, end)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._descriptor)

    def append(self, line: Object) -> None:
        """Put one line on disk. Raises OSError (then nothing of it is left there) and TaskFolderGone."""
        if os.fstat(self._descriptor).st_nlink == 0:
            raise TaskFolderGone(f"{self.folder} was deleted while its task was at work; its processes are ended")
        content = orjson.dumps(line) + b"\n"
        try:
            self._write(content)
            os.fdatasync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self.end)
            raise
        self.end += len(content)

    def _write(self, content: bytes) -> None:
        if os.write(self._descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "a decision could not be written whole", str(self.folder / NAME))


def line_of(before: Task | None, after: Task, event: Event, change: list[Operation]) -> Object:
    """The journal's line for one decision."""
    old, new = _moved(before, after)
    return {
        "seq": after.seq,
        "timestamp": stamp(event.at),
        "task_id": after.id,
        "type": "state_transition" if old != new else "event",
        "from": old,
        "to": new,
        "trigger": type(event).__name__,
        "metadata": {"stage": after.stage, "status": after.status.value, "attempt": after.agent.attempt},
        "event": None if before is None else to_json(event),
        "change": cast(Json, change),
    }


def caught_up(folder: Path, document: Object, covered: int) -> tuple[Object, int]:
    """The document with every whole line beyond `covered` bytes applied, and where the last whole line ends.

    A torn last line is passed over. Raises StoreError if there is no journal, DamagedJournal if it does not fit.
    """
    path = folder / NAME
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise StoreError(f"there is no task {folder.name}: {path} is missing") from None
    if size < covered:
        raise DamagedJournal(f"{path} has {size} bytes, but state.json knows {covered}; restore it from a backup")
    if size > covered:
        document, covered = _replayed(path, document, covered)
    if not document:
        raise DamagedJournal(f"{path} holds no decision; the ticket was never accepted and the folder may be deleted")
    return document, covered


def lines(folder: Path) -> Iterator[Object]:
    """Every whole line of a journal, oldest first."""
    with (folder / NAME).open("rb") as journal:
        for raw in journal:
            line = parsed(raw) if raw.endswith(b"\n") else None
            if line is not None:
                yield line


def parsed(content: bytes) -> Object | None:
    """The JSON object that these bytes are, or None."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def _replayed(path: Path, document: Object, covered: int) -> tuple[Object, int]:
    with path.open("rb") as journal:
        journal.seek(covered)
        for raw in journal:
            if not raw.endswith(b"\n"):
                break
            document = _applied(path, document, parsed(raw), covered)
            covered += len(raw)
    return document, covered


def _applied(path: Path, document: Object, line: Object | None, at: int) -> Object:
    expected = cast(int, document.get("seq", 0)) + 1
    if line is None or line.get("seq") != expected:
        raise DamagedJournal(f"{path}: decision {expected} should stand at byte {at}; restore it from a backup")
    try:
        return applied(document, cast(list[Operation], line["change"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedJournal(f"{path} is damaged at byte {at}: {error}; restore it from a backup") from error


def _moved(before: Task | None, after: Task) -> tuple[str | None, str]:
    """The first of status, stage and agent status that the decision changed, or the stage twice."""
    if before is None:
        return None, after.status.value
    if before.status is not after.status:
        return before.status.value, after.status.value
    if before.stage != after.stage:
        return before.stage, after.stage
    if before.agent.status is not after.agent.status:
        return before.agent.status.value, after.agent.status.value
    return before.stage, after.stage
