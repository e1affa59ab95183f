"""Tasks on disk: the journal is the commit, state.json is what it adds up to (architecture.md, law 2).

One decision is one line of `journal.jsonl`: sequence number, the event whole, and what changed in the state as a JSON
Patch. The line is on disk before anything else happens. Then state.json is replaced by rename; it is not waited for,
because it can be had again: it says how many bytes of the journal it covers and ends with a checksum of itself, so

* lines beyond it (a crash between the two) are applied at load, and a torn last line is cut off;
* a damaged or missing one is the fold of the journal from the newest readable checkpoint;
* one written by another hand has a wrong checksum: it is set aside as `state.json.foreign-<seq>`, the truth restored.

Telemetry (usage, progress, how far output was read) is written into state.json between decisions and never into the
journal. To keep the fold whole, the first decision after a load records the agent entire.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.document import SCHEMA_VERSION, Object, from_document, to_document
from orchestrator.core.events import Event
from orchestrator.core.model import Task, TaskStatus
from orchestrator.core.patch import difference
from orchestrator.files import make_private, sync_folder, write_atomically
from orchestrator.journal import DamagedJournal, Journal, StoreError, caught_up, line_of, parsed

KEPT_CHECKPOINTS = 10
_CHECKSUM = b',\n  "checksum": "'


class DataFolderTaken(StoreError):
    """Another daemon works on this data folder."""

    def __init__(self, folder: Path, pid: str) -> None:
        super().__init__(
            f"{folder} is in use by the daemon with pid {pid}; stop that one, or give this one another --data-dir"
        )


class FutureFile(StoreError):
    """A file was written by a later version of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What lists show of a task that is not at work."""

    id: str
    title: str
    ticket: str
    status: TaskStatus
    stage: str
    repo: str
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A task as it was found on disk, and what had been written into its state.json by another hand, if anything."""

    task: Task
    foreign: str | None = None
    changed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Live:
    """A task that is at work: its journal, the document it adds up to, and the digest of its state.json."""

    journal: Journal
    document: Object
    digest: bytes = b""


class FolderStore:
    """All tasks of one data folder; only one process may have it open. Raises DataFolderTaken."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = make_private(data_dir)
        self.tasks_dir = make_private(data_dir / "tasks")
        self._live: dict[str, _Live] = {}
        self._lock = _locked(data_dir)

    def close(self) -> None:
        """Give the data folder free."""
        for live in self._live.values():
            live.journal.close()
        self._live.clear()
        os.close(self._lock)

    def folder(self, task_id: str) -> Path:
        """Where a task's files lie."""
        return self.tasks_dir / task_id

    def commit(self, before: Task | None, after: Task, event: Event) -> None:
        """Put one decision on disk; when it returns, the decision cannot be lost.

        Raises OSError where the disk is full or read-only, and TaskFolderGone; then nothing was decided.
        """
        live = self._born(after) if before is None else self._live[after.id]
        document = to_document(after)
        live.journal.append(line_of(before, after, event, difference(live.document, document)))
        live.document = document
        self._write_state(after, live, document)

    def note_telemetry(self, task: Task) -> None:
        """Write what is no decision (usage, progress, how far output was read) into state.json."""
        self._write_state(task, self._live[task.id], to_document(task))

    def release(self, task_id: str) -> None:
        """Close the journal of a task that is not at work any more."""
        live = self._live.pop(task_id, None)
        if live is not None:
            live.journal.close()

    def save_checkpoint(self, task: Task, number: int, commit: str | None) -> None:
        """Keep a snapshot of the state to fold from, and the newest ten of them."""
        folder = make_private(self.folder(task.id) / "checkpoints")
        live = self._live[task.id]
        content = {"number": number, "commit": commit, "journal_bytes": live.journal.end, "state": live.document}
        write_atomically(folder / f"{number:06d}.json", orjson.dumps(content, option=orjson.OPT_INDENT_2))
        for old in sorted(folder.glob("[0-9]*.json"))[:-KEPT_CHECKPOINTS]:
            old.unlink(missing_ok=True)

    def summaries(self) -> Iterator[Summary | StoreError]:
        """Every task's line in a list, or why there is none; reads only state.json."""
        for folder in sorted(self.tasks_dir.iterdir()):
            try:
                yield _summary(orjson.loads((folder / "state.json").read_bytes()))
            except (OSError, ValueError, KeyError, TypeError):
                try:
                    yield _summary(to_document(self.load(folder.name).task))
                except StoreError as error:
                    yield error

    def load(self, task_id: str, *, keep_open: bool = False) -> Loaded:
        """A task from disk; `keep_open` makes it one that decisions can be committed to, and repairs its files.

        Raises StoreError: FutureFile, DamagedJournal, or that there is no such task.
        """
        folder = self.folder(task_id)
        document, covered, foreign = _state_of(folder)
        stranger = document if foreign else None
        if document is None or foreign:
            document, covered = _newest_checkpoint(folder)
        document, end = caught_up(folder, document, covered)
        task = _task_from(folder, document)
        kept_as = f"state.json.foreign-{task.seq}" if foreign else None
        if keep_open:
            if kept_as:
                (folder / "state.json").replace(folder / kept_as)
            self._live[task_id] = live = _Live(Journal(folder, end), _without_agent(document))
            self._write_state(task, live, to_document(task))
        return Loaded(task=task, foreign=kept_as, changed=_changed(document, stranger))

    def foreign_edit(self, task: Task) -> tuple[str, tuple[str, ...]] | None:
        """Set aside a state.json that another hand wrote while the task is alive, and restore the truth.

        The name it was kept under and the paths that it had changed; None if state.json is ours.
        """
        live, folder = self._live.get(task.id), self.folder(task.id)
        if live is None or not folder.is_dir():
            return None
        path = folder / "state.json"
        content = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(content).digest() == live.digest:
            return None
        kept_as = f"state.json.foreign-{task.seq}"
        if content:
            write_atomically(folder / kept_as, content)
        self._write_state(task, live, to_document(task))
        return kept_as, _changed(parsed(path.read_bytes()) or {}, parsed(content))

    def _born(self, task: Task) -> _Live:
        folder = make_private(self.folder(task.id))
        self._live[task.id] = live = _Live(Journal(folder), {})
        sync_folder(folder)
        sync_folder(self.tasks_dir)
        return live

    def _write_state(self, task: Task, live: _Live, document: Object) -> None:
        whole = {**document, "journal_bytes": live.journal.end}
        body = orjson.dumps(whole, option=orjson.OPT_INDENT_2)[:-2]
        content = body + _CHECKSUM + hashlib.sha256(body).hexdigest().encode() + b'"\n}\n'
        write_atomically(self.folder(task.id) / "state.json", content, durable=False)
        live.digest = hashlib.sha256(content).digest()


def _locked(data_dir: Path) -> int:
    descriptor = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataFolderTaken(data_dir, pid) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _state_of(folder: Path) -> tuple[Object | None, int, bool]:
    """What state.json says, how many bytes of the journal it covers, and whether another hand wrote it."""
    try:
        content = (folder / "state.json").read_bytes()
    except FileNotFoundError:
        return None, 0, False
    document = parsed(content)
    if document is None:
        return None, 0, bool(content.strip())
    if document.get("schema_version") != SCHEMA_VERSION and isinstance(document.get("schema_version"), int):
        raise FutureFile(
            f"{folder / 'state.json'} has version {document['schema_version']}, this program reads {SCHEMA_VERSION}; "
            "install the version that wrote it"
        )
    body, _, rest = content.rpartition(_CHECKSUM)
    if rest[:64] != hashlib.sha256(body).hexdigest().encode():
        return document, 0, True
    del document["checksum"]
    covered = document.pop("journal_bytes", 0)
    return document, covered if isinstance(covered, int) else 0, False


def _newest_checkpoint(folder: Path) -> tuple[Object, int]:
    """The newest readable checkpoint's state and how far into the journal it reaches; an empty one without any."""
    for path in sorted((folder / "checkpoints").glob("[0-9]*.json"), reverse=True):
        kept = parsed(path.read_bytes())
        if kept and isinstance(kept.get("state"), dict) and isinstance(kept.get("journal_bytes"), int):
            return cast(Object, kept["state"]), cast(int, kept["journal_bytes"])
    return {}, 0


def _task_from(folder: Path, document: Object) -> Task:
    try:
        return from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedJournal(f"the journal in {folder} does not add up to a task: {error!r}") from error


def _changed(truth: Object, stranger: Object | None) -> tuple[str, ...]:
    """The paths that another hand had changed, at most fifty."""
    return tuple(str(one["path"]) for one in difference(truth, stranger))[:50] if stranger else ()


def _without_agent(document: Object) -> Object:
    return {name: value for name, value in document.items() if name != "agent"}


def _summary(document: Object) -> Summary:
    return Summary(
        id=str(document["task_id"]),
        title=str(document["title"]),
        ticket=str(document["ticket_id"]),
        status=TaskStatus(str(document["status"])),
        stage=str(document["stage"]),
        repo=str(document["repo"]),
        created_at=str(document["created_at"]),
        updated_at=str(document["updated_at"]),
    )
