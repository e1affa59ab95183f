"""Tasks on disk: the journal is the commit, state.json is what it adds up to (architecture.md, law 2).

One decision is one line of `journal.jsonl`: sequence number, the event whole, and what changed in the state as a JSON
Patch. The line is on disk before anything else happens. Then, once for a burst of decisions, state.json is replaced by
rename; it is not waited for, and it may fail, because it can be had again: it says how many bytes of the journal it
covers and is sealed, so

* lines beyond it (a crash between the two) are applied at load, and a torn last line is cut off;
* a damaged or missing one is the fold of the journal from the newest checkpoint whose seal is whole;
* one written by another hand has no seal of ours: it is set aside as `state.json.foreign-<seq>`, the truth restored.

Telemetry (usage, progress, how far output was read) is written into state.json between decisions and never into the
journal. So that the journal's change fits both the state with telemetry and the one without, the first decision after
any telemetry, and the first after a load, record the agent entire.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import orjson
import structlog

from orchestrator.core.events.events import Event
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.checkpoint import Checkpoint
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.usage_limits import AccountState
from orchestrator.formats.codec import JsonObject, from_json, to_json
from orchestrator.formats.files import make_private, sync_folder, write_atomically
from orchestrator.formats.patch import difference
from orchestrator.redaction.display import escape_text
from orchestrator.storage import checkpoint_files
from orchestrator.storage.journal import NAME, DamagedJournal, Journal, StoreError, line_of, replay, replay_from
from orchestrator.storage.migration import is_current
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.storage.state_file import ForeignEdit, StateFile, changes, require_known, set_aside, state_of, top_of

log = structlog.get_logger()

TAKEN_IN = frozenset({"ticket.json", "pipeline.toml"})
"""What is in a task's folder before its journal begins (intake.py)."""
ACCOUNT_FILE = "account.json"


class DataFolderTaken(StoreError):
    """Another daemon works on this data folder."""

    def __init__(self, folder: Path, pid: str) -> None:
        super().__init__(
            f"{folder} is in use by the daemon with pid {pid}; stop that one, or give this one another --data-dir"
        )


class UncommittedTask(StoreError):
    """A ticket was taken in and never accepted: it may still be, or the daemon died in between."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"the ticket in the folder {escape_text(task_id)} was never accepted")
        self.task_id = task_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What lists show of a task that is not at work; `files` are the names of what lies in its folder."""

    id: str
    title: str
    ticket: str
    status: TaskStatus
    stage: str
    repo: str
    created_at: str
    updated_at: str
    running: bool = False
    spent: Mapping[str, Spending] = field(default_factory=dict)
    files: frozenset[str] = frozenset()

    @property
    def ended(self) -> bool:
        """Whether the task wants nothing any more; one that was cancelled still wants the end of its run."""
        return self.status.is_final and not self.running


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A task as it was found on disk; where another hand had written its state.json, what that had changed in it.

    `foreign` is the name it was kept under, if it was set aside.
    """

    task: Task
    foreign: str | None = None
    changed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Live:
    """A task that is at work: its journal, the document that the next change starts from, its state.json.

    `unwritten` is the document that state.json is still to say, when it is behind the journal. `before_migration` is
    the whole document as long as the journal adds up to an earlier format: until the first decision, which takes the
    journal to the present format, nothing else may be written.
    """

    journal: Journal
    document: JsonObject
    state: StateFile
    unwritten: JsonObject | None = None
    before_migration: JsonObject | None = None

    def document_of(self, task: Task) -> JsonObject:
        """What state.json and checkpoints are to say: what the journal up to now can go on from."""
        return self.before_migration or to_document(task)


class FolderStore:
    """All tasks of one data folder; only one process may have it open. Raises DataFolderTaken and StoreError."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.tasks_dir = data_dir / "tasks"
        self._live: dict[str, _Live] = {}
        self._stale: set[str] = set()
        try:
            make_private(data_dir)
            make_private(self.tasks_dir)
            sync_folder(data_dir)
            self._lock = _locked(data_dir)
        except OSError as error:
            raise StoreError(
                f"{data_dir} cannot hold the data: {error}; make it writable for this user, or give another --data-dir"
            ) from error

    def close(self) -> None:
        """Give the data folder free."""
        self.settle()
        self._live.clear()
        os.close(self._lock)

    def remove(self, unborn: UncommittedTask) -> None:
        """Remove the folder of a ticket that is taken in no more; a link to one stays."""
        folder = self.folder(unborn.task_id)
        if not folder.is_symlink():
            shutil.rmtree(folder)

    def folder(self, task_id: str) -> Path:
        """Where a task's files lie."""
        return self.tasks_dir / task_id

    def commit(self, before: Task | None, after: Task, event: Event) -> None:
        """Put one decision on disk; when it returns, the decision cannot be lost.

        Raises OSError where the disk is full or read-only, and StoreError; then nothing was decided.
        """
        document = to_document(after)
        if before is None:
            live = self._born(after, event, document)
        else:
            live = self._live[after.id]
            live.journal.append(line_of(before, after, event, difference(live.document, document)))
        live.document = live.unwritten = document
        live.before_migration = None
        self._stale.add(after.id)

    def settle(self) -> list[ForeignEdit]:
        """Replace every state.json that is behind its journal: once for a burst of decisions, before anyone is told.

        What another hand had written there meanwhile is set aside, and answered.
        """
        found: list[ForeignEdit] = []
        for task_id in self._stale:
            live = self._live[task_id]
            if live.unwritten is not None:
                found += self._renew_state(live, live.unwritten)
        self._stale.clear()
        return found

    def note_telemetry(self, task: Task) -> None:
        """Write what is no decision (usage, progress, how far output was read) into state.json. Raises OSError."""
        live = self._live[task.id]
        if live.before_migration is not None:
            return
        live.document = _without_agent(live.document)
        self._write_state(live, to_document(task))

    def release(self, task_id: str) -> None:
        """Let go of a task that is not at work any more, its state.json as it ended."""
        live = self._live.pop(task_id, None)
        self._stale.discard(task_id)
        if live is not None and live.unwritten is not None:
            self._renew_state(live, live.unwritten)

    def save_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint, with the state to fold from; one that cannot be written is only logged."""
        try:
            live = self._live[task.id]
            checkpoint_files.write(self.folder(task.id), checkpoint, live.document_of(task), live.journal.end)
        except OSError as error:
            log.warning("checkpoint_not_written", task=task.id, number=checkpoint.number, error=str(error))

    def keep_account(self, kept: AccountState) -> bool:
        """Keep what binds all tasks; whether that is on disk."""
        try:
            write_atomically(self.data_dir / ACCOUNT_FILE, orjson.dumps(to_json(kept), option=orjson.OPT_INDENT_2))
        except OSError as error:
            log.warning("account_not_written", error=str(error))
            return False
        return True

    def account(self) -> AccountState:
        """What was kept so; nothing where that cannot be read."""
        try:
            return from_json(AccountState, orjson.loads((self.data_dir / ACCOUNT_FILE).read_bytes()))
        except FileNotFoundError:
            return AccountState()
        except (OSError, ValueError, TypeError) as error:
            log.warning("account_not_read", error=str(error))
            return AccountState()

    def summaries(self) -> Iterator[Summary | StoreError]:
        """Every task's line in a list, or why there is none; where state.json is whole, nothing else is read."""
        for name in sorted(os.listdir(self.tasks_dir)):  # noqa: PTH208 - names alone, here and below
            folder = self.folder(name)
            try:
                files = frozenset(os.listdir(folder))  # noqa: PTH208
                document = top_of(folder)
                if document is None:
                    _require_born(name, files)
                yield _summary(name, document or to_document(self.load(name).task), files)
            except StoreError as error:
                yield error
            except (OSError, KeyError, TypeError, ValueError) as error:
                yield StoreError(f"{escape_text(str(folder))} cannot be read: {error!r}")

    def load(self, task_id: str, *, keep_open: bool = False) -> Loaded:
        """A task from disk; `keep_open` makes it one that decisions can be committed to, and repairs its files.

        Raises OSError and StoreError: FutureFile, DamagedJournal, or that there is no such task.
        """
        folder = self.folder(task_id)
        state, covered, foreign = state_of(folder)
        if state is None or foreign:
            document, end = replay(folder)
        else:
            document, end = replay_from(folder, state, covered)
        task = _task_from(folder, document)
        _require_own(task_id, task.id)
        kept_as = None
        if keep_open:
            self.release(task_id)
            kept_as = set_aside(folder, task.seq) if foreign else None
            state_file = StateFile(folder)
            state_file.adopt()
            self._live[task_id] = live = _Live(Journal(folder, end), _without_agent(document), state_file)
            live.before_migration = None if is_current(document) else document
            self._renew_state(live, live.document_of(task))
        return Loaded(task=task, foreign=kept_as, changed=changes(document, state if foreign else None))

    def foreign_edits(self, task: Task) -> list[ForeignEdit]:
        """Set aside a state.json that another hand wrote while the task is alive, and restore the truth."""
        live = self._live.get(task.id)
        if live is None or not self.folder(task.id).is_dir() or live.state.is_ours():
            return []
        live.document = _without_agent(live.document)
        return self._renew_state(live, live.document_of(task))

    def _born(self, task: Task, event: Event, document: JsonObject) -> _Live:
        """A new task with its first decision on disk; if that fails, nothing is left of it."""
        folder = make_private(self.folder(task.id))
        live = _Live(Journal(folder), {}, StateFile(folder))
        try:
            live.journal.append(line_of(None, task, event, difference({}, document)))
            sync_folder(folder)
            sync_folder(self.tasks_dir)
        except (OSError, StoreError):
            live.journal.delete()
            raise
        self._live[task.id] = live
        return live

    def _renew_state(self, live: _Live, document: JsonObject) -> list[ForeignEdit]:
        """Write state.json after the journal; where that fails, the old one stays, for the next load to catch up.

        One that another hand had written meanwhile is set aside, and answered.
        """
        found: list[ForeignEdit] = []
        try:
            found = live.state.set_aside_foreign(cast(int, live.document["seq"]))
            self._write_state(live, document)
        except OSError as error:
            log.warning("state_not_written", task=live.journal.folder.name, error=str(error))
        return found

    def _write_state(self, live: _Live, document: JsonObject) -> None:
        live.state.replace(document, live.journal.end)
        live.unwritten = None


def _require_born(task_id: str, files: frozenset[str]) -> None:
    """Raise UncommittedTask for a folder with nothing but what is written before the first decision."""
    if all(name.lstrip(".").removesuffix(".partial") in TAKEN_IN for name in files):
        raise UncommittedTask(task_id)


def _locked(data_dir: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(data_dir / "lock", flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pid = f"{os.getpid()}\n".encode()
        os.pwrite(descriptor, pid, 0)
        os.ftruncate(descriptor, len(pid))
    except BlockingIOError:
        owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataFolderTaken(data_dir, owner) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _task_from(folder: Path, document: JsonObject) -> Task:
    require_known(folder / NAME, document)
    try:
        return from_document(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedJournal(f"the journal in {folder} does not add up to a task: {error!r}") from error


def _require_own(name: str, task_id: str) -> None:
    if task_id != name:
        raise StoreError(
            f"the folder {escape_text(name)} holds the task {escape_text(task_id)}; rename it back, or delete the copy"
        )


def _without_agent(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if name != "agent"}


def _summary(name: str, document: JsonObject, files: frozenset[str]) -> Summary:
    _require_own(name, str(document["task_id"]))
    return Summary(
        id=str(document["task_id"]),
        title=str(document["title"]),
        ticket=str(document["ticket_id"]),
        status=TaskStatus(str(document["status"])),
        stage=str(document["stage"]),
        repo=str(document["repo"]),
        created_at=str(document["created_at"]),
        updated_at=str(document["updated_at"]),
        running=document.get("run") is not None or bool(document.get("notices")),
        spent=_spent(document),
        files=files,
    )


def _spent(document: JsonObject) -> Mapping[str, Spending]:
    """What it had used on each day; nothing in files that an earlier version wrote."""
    spending = document.get("spending")
    found = spending.get("by_day") if isinstance(spending, dict) else None
    return {day: from_json(Spending, one) for day, one in found.items()} if isinstance(found, dict) else {}
