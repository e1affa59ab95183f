"""The journal of one task: `journal.jsonl`, one line per decision, on disk before anything else happens.

A line holds the whole event, the transition it caused, and the change of the state as a JSON Patch. Reading a journal
never makes a decision again: it only applies changes.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import orjson

from orchestrator.core.events.events import DraftChanged, Event, TaskSubmitted
from orchestrator.core.task.progress import deliverables
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json, JsonObject, stamp, to_json
from orchestrator.formats.diffs.patch import Operation, applied
from orchestrator.formats.files import free_name, parsed, read_file, unsealed, write_atomically
from orchestrator.formats.signing import signing_key
from orchestrator.redaction.display import escape_text
from orchestrator.storage.records import StoreError

NAME = "journal.jsonl"
CHECKPOINTS = "checkpoints"
RECOVERED = "Recovered"
"""The trigger of a line that is no decision, but has the whole state after those that were lost."""
REPAIR_HINT = "restore it from a backup, or run `orchestrator checkpoints recover` for the task"

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO})


class DamagedJournal(StoreError):
    """A journal does not add up to a state."""


class TaskFolderGone(StoreError):
    """A task's folder was deleted while the task was alive."""


class Journal:
    """A task's journal while decisions are appended to it; `end` is where its last whole line ends, in bytes, and
    `last` the size of the line that was appended last.

    Opened with an `end`, anything beyond it is cut off; without one, a new journal is created. Raises StoreError if
    there is one already, and OSError. The file is open only while a line is written: a daemon may have thousands of
    tasks.
    """

    def __init__(self, folder: Path, end: int = 0) -> None:
        self.folder, self.end, self._path = folder, end, folder / NAME
        self.last = 0
        try:
            descriptor = os.open(self._path, _FLAGS if end else _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise StoreError(f"{self._path} already exists; a task is created only once") from None
        try:
            self._file = os.fstat(descriptor)
            if self._file.st_size > end:
                os.ftruncate(descriptor, end)
        finally:
            os.close(descriptor)

    def delete(self) -> None:
        """Delete a new journal whose first line could not be written."""
        self._path.unlink(missing_ok=True)

    def append(self, line: JsonObject) -> None:
        """Append one line and wait for the disk. Raises TaskFolderGone, OSError, StoreError; it leaves no part then."""
        try:
            content = orjson.dumps(line) + b"\n"
        except orjson.JSONEncodeError as error:
            raise StoreError(f"a decision cannot be written to {self._path}: {error}") from error
        descriptor = self._opened()
        try:
            self._check_end(descriptor)
            self._write(descriptor, content)
        finally:
            os.close(descriptor)
        self.end += len(content)
        self.last = len(content)

    def _opened(self) -> int:
        try:
            return os.open(self._path, _FLAGS)
        except OSError as error:
            if error.errno in _GONE:
                raise self._gone() from error
            raise

    def _gone(self) -> TaskFolderGone:
        return TaskFolderGone(
            f"{self._path} was deleted or moved while its task was active; the task's processes are killed"
        )

    def _check_end(self, descriptor: int) -> None:
        """Check that the file is the same one and not shorter than before; cut off half a line beyond its end."""
        found = os.fstat(descriptor)
        if not os.path.samestat(found, self._file):
            raise self._gone()
        if found.st_size < self.end:
            raise DamagedJournal(
                f"{self._path} was truncated to {found.st_size} of {self.end} bytes while its task was active; "
                "restore it from a backup and start the daemon again"
            )
        if found.st_size > self.end:
            os.ftruncate(descriptor, self.end)

    def _write(self, descriptor: int, content: bytes) -> None:
        try:
            self._write_whole(descriptor, content)
            os.fdatasync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self.end)
            raise

    def _write_whole(self, descriptor: int, content: bytes) -> None:
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, "a decision could not be written completely", str(self._path))


def line_of(before: Task | None, after: Task, event: Event, change: list[Operation]) -> JsonObject:
    """Return the journal's line for one decision."""
    old, new = _transition(before, after)
    return {
        "seq": after.seq,
        "timestamp": stamp(event.at),
        "task_id": after.id,
        "type": "state_transition" if old != new else "event",
        "from": old,
        "to": new,
        "trigger": type(event).__name__,
        "metadata": _metadata(after),
        "event": _event_json(event),
        "change": cast(Json, change),
    }


def _metadata(task: Task) -> JsonObject:
    """Return where the task is: in a pipeline with phases also the phase, and how many files it has left."""
    found: JsonObject = {"stage": task.stage, "status": task.status.value, "attempt": task.agent.attempt}
    if (phase := task.current_phase) is not None:
        found |= {"phase": phase, "deliverables": len(deliverables(task.stages, phase))}
    return found


class Replayed(NamedTuple):
    """What a journal adds up to, and where its last line that counts ends, in bytes.

    `is_damaged` if the bytes beyond it are no decisions, `is_short` if the state knows decisions that it has lost.
    """

    document: JsonObject
    end: int
    is_damaged: bool = False
    is_short: bool = False

    @property
    def seq(self) -> int:
        """The number of the last decision."""
        found = self.document.get("seq")
        return found if isinstance(found, int) else 0


def replay_from(folder: Path, document: JsonObject, covered: int) -> Replayed:
    """Return the document with every whole line beyond `covered` bytes applied.

    A torn last line is skipped, and so are lines at the end that are no decisions: garbage, or a line twice. If the
    journal is shorter than `covered`, the document alone counts. Raises StoreError if there is no journal,
    DamagedJournal if a decision beyond what can be applied is left.
    """
    path = folder / NAME
    size = _size(path)
    if size < covered:
        return Replayed(document, _replayed(path, {}, 0, are_lost=True).end, is_damaged=True, is_short=True)
    found = _replayed(path, document, covered) if size > covered else Replayed(document, covered)
    if not found.document:
        raise DamagedJournal(
            f"{escape_text(str(path))} contains no decision; its ticket was never accepted; the folder can be deleted"
        )
    return found


def replay(folder: Path) -> Replayed:
    """Replay the journal on its newest intact checkpoint. Raises as `replay_from`, also if it ends before that."""
    for path in checkpoints(folder):
        kept = unsealed(read_file(path) or b"", key=seal_key(folder))
        if kept is not None and (state := cast(JsonObject, kept["state"])).get("task_id") == folder.name:
            covered = cast(int, kept["journal_bytes"])
            if (size := _size(folder / NAME)) < covered:
                where = escape_text(str(folder / NAME))
                raise DamagedJournal(f"{where} has {size} bytes, but {covered} were written; {REPAIR_HINT}")
            return replay_from(folder, state, covered)
    return replay_from(folder, {}, 0)


def whole_lines(folder: Path) -> JsonObject:
    """Return what a journal adds up to before the first line that does not fit. Raises StoreError if there is none."""
    _size(folder / NAME)
    return _replayed(folder / NAME, {}, 0, are_lost=True).document


def mend(folder: Path, found: Replayed, line: JsonObject) -> tuple[str | None, int]:
    """Set aside what is no decision at the end of a journal, and append `line` if the journal is too short.

    Return the name under which the former is kept, if there was any, and where the journal ends. Raises OSError.
    """
    content = (folder / NAME).read_bytes()
    whole, rest = content[: found.end], content[found.end :]
    kept_as = None
    if rest:
        kept_as = free_name(folder, f"{NAME}.damaged-{found.seq}")
        write_atomically(folder / kept_as, rest)
    if found.is_short:
        whole += orjson.dumps(line) + b"\n"
    write_atomically(folder / NAME, whole)
    return kept_as, len(whole)


def recovered_line(task_id: str, document: JsonObject, at: str) -> JsonObject:
    """Return a line that gives the state after decisions whose own lines are lost; it has the number of the last."""
    return {
        "seq": document["seq"],
        "timestamp": at,
        "task_id": task_id,
        "type": "event",
        "from": document["stage"],
        "to": document["stage"],
        "trigger": RECOVERED,
        "metadata": {},
        "event": {"at": at},
        "change": [{"op": "replace", "path": "", "value": document}],
    }


def checkpoints(folder: Path) -> list[Path]:
    """Return the files of a task's checkpoints, newest first."""
    return sorted((folder / CHECKPOINTS).glob("[0-9]*.json"), reverse=True)


def seal_key(folder: Path | str) -> bytes:
    """Return the key that seals the states of the task of this folder. Raises OSError."""
    tasks, name = os.path.split(folder)
    return signing_key(os.path.dirname(tasks), f"states of {name}")  # noqa: PTH120  (for ten thousand tasks at a start)


def lines(folder: Path) -> Iterator[JsonObject]:
    """Yield every whole line of a journal, oldest first. Raises StoreError if there is none."""
    _size(folder / NAME)
    with (folder / NAME).open("rb") as journal:
        for raw in journal:
            line = parsed(raw) if raw.endswith(b"\n") else None
            if line is not None:
                yield line


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"there is no task {escape_text(path.parent.name)}: {escape_text(str(path))} is missing"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"{escape_text(str(path))} is not a regular file; restore the journal, or delete the folder")
    return found.st_size


def _replayed(path: Path, document: JsonObject, covered: int, *, are_lost: bool = False) -> Replayed:
    """Apply lines as long as they fit; with `are_lost` it does not matter what the others are."""
    with path.open("rb") as journal:
        journal.seek(covered)
        for raw in journal:
            if not raw.endswith(b"\n") or (b"\0" in raw and not journal.peek(1)):
                break  # torn: the end of the line, or blocks within it, never reached the disk
            try:
                document = _applied(path, document, parsed(raw), covered)
            except DamagedJournal:
                if not are_lost and any(_is_later(line, path.parent.name, document) for line in (raw, *journal)):
                    raise
                return Replayed(document, covered, is_damaged=True)
            covered += len(raw)
    return Replayed(document, covered)


def _applied(path: Path, document: JsonObject, line: JsonObject | None, at: int) -> JsonObject:
    known = document.get("seq", 0)
    expected = known + 1 if isinstance(known, int) else None
    if expected is not None and (whole := _recovered(line, path.parent.name, expected)):
        return whole
    if line is None or line.get("seq") != expected or (document and line.get("task_id") != document.get("task_id")):
        raise DamagedJournal(f"{path}: decision {expected} is missing at byte {at}; {REPAIR_HINT}")
    try:
        return applied(document, cast(list[Operation], line["change"]))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedJournal(f"{path} is damaged at byte {at}: {error}; {REPAIR_HINT}") from error


def _recovered(line: JsonObject | None, task_id: str, expected: int) -> JsonObject | None:
    """Return the state that a line gives as a whole, in place of decisions from the expected one on."""
    match line:
        case {
            "trigger": str(trigger),
            "change": [{"path": "", "value": {"task_id": str(owner), "seq": int(seq)} as whole}],
        } if trigger == RECOVERED and owner == task_id and seq >= expected:
            return cast(JsonObject, whole)
    return None


def _is_later(raw: bytes, task_id: str, document: JsonObject) -> bool:
    """Return whether a line is a decision of the task beyond those that the document has."""
    line, known = parsed(raw), document.get("seq", 0)
    seq = line.get("seq") if line is not None and line.get("task_id") == task_id else None
    return isinstance(seq, int) and isinstance(known, int) and seq > known


def _event_json(event: Event) -> Json:
    """Return the whole event; a submitted or changed task is left out, because the change contains it."""
    if isinstance(event, TaskSubmitted | DraftChanged):
        return {"at": stamp(event.at), "by": event.by}
    return to_json(event)


def _transition(before: Task | None, after: Task) -> tuple[str | None, str]:
    """Return the first of status, stage and agent status that the decision changed; if none did, the stage twice."""
    if before is None:
        return None, after.status.value
    if before.status is not after.status:
        return before.status.value, after.status.value
    if before.stage != after.stage:
        return before.stage, after.stage
    if before.agent.status is not after.agent.status:
        return before.agent.status.value, after.agent.status.value
    return before.stage, after.stage
