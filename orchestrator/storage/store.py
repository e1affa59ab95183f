"""Tasks in folders: the journal is the commit, and state.json is the state that it adds up to.

One decision is one line of `journal.jsonl`: sequence number, the whole event, and the change of the state as a JSON
Patch. The line is on disk before anything else happens; then the decision is numbered. Once for a burst of decisions,
the numbers are written into the index of events, and state.json is replaced by rename. Nobody waits for either, and
both may fail, because both files can be rebuilt: state.json is sealed and says how many bytes of the journal it covers.
So

* lines beyond it, after a crash between the two writes, are applied at load, and a torn last line is cut off;
* a damaged or missing one is rebuilt from the journal and the newest intact checkpoint;
* one written by another program lacks our seal, or contradicts the journal, which counts first: it is set aside as
  `state.json.foreign-<seq>` and rewritten.

Telemetry (usage, progress, how far output was read) is written into state.json between decisions and never into the
journal. So that a change in the journal fits both the state with telemetry and the one without, the first decision
after any telemetry, and the first after a load, record the whole agent.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import orjson
import structlog

from orchestrator import clock
from orchestrator.core.events.events import Event
from orchestrator.core.schedule.trouble import AccountState
from orchestrator.core.task.checkpoint import Checkpoint
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject, from_json, stamp, to_json
from orchestrator.formats.diffs.patch import difference
from orchestrator.formats.files import Kept, make_private, sync_folder, version_of, write_atomically
from orchestrator.storage import checkpoint_files
from orchestrator.storage.event_log import FolderEventLog
from orchestrator.storage.folder.format import adopt_folder
from orchestrator.storage.folder.lock import lock_folder
from orchestrator.storage.journal import (
    NAME,
    DamagedJournal,
    Journal,
    TaskFolderGone,
    line_of,
    mend,
    recovered_line,
)
from orchestrator.storage.migration import is_current
from orchestrator.storage.records import ForeignEdit, LoadedTask, SequenceConflict, StoreError, TaskSummary
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.state_file import (
    StateFile,
    changes,
    renew_seal,
    require_known,
    set_aside,
    state_and_journal,
)
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.storage.task_list import require_own, summaries

log = structlog.get_logger()


ACCOUNT_FILE = "account.json"
MOST_KEPT = 32
"""How many tasks are kept as they were read: to prove a state by a long journal takes half a second."""


@dataclass(slots=True)
class _OpenTask:
    """An open task: its journal, the document that the next change starts from, and its state.json.

    `unwritten` is the document that state.json still has to show, if it is behind the journal. `before_migration` is
    the whole document as long as the journal adds up to an earlier format: until the first decision, which takes the
    journal to the current format, nothing else may be written.
    """

    journal: Journal
    document: JsonObject
    state: StateFile
    unwritten: JsonObject | None = None
    before_migration: JsonObject | None = None

    def document_of(self, task: Task) -> JsonObject:
        """Return what state.json and checkpoints have to say so that the present journal can continue from it."""
        return self.before_migration or to_document(task)


class FolderStore:
    """Satisfies `Store` with one folder per task; only one process may have a data folder open.

    Raises StoreInUse and StoreError.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.files = FolderTaskFiles(data_dir / "tasks")
        self._open: dict[str, _OpenTask] = {}
        self._stale: set[str] = set()
        self._mended_files: list[ForeignEdit] = []
        self._read: Kept[LoadedTask] = Kept(MOST_KEPT)
        self._events: FolderEventLog | None = None
        try:
            make_private(data_dir)
            make_private(self.files.root)
            sync_folder(data_dir)
            self._lock = lock_folder(data_dir)
            self._adopt()
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(
                f"{data_dir} cannot hold the data: {reason}; make it writable for this user, or give another --data-dir"
            ) from error

    def _adopt(self) -> None:
        """Take the folder to the present format, or unlock it again. Raises UnfitFolder and OSError."""
        try:
            self.format = adopt_folder(self.data_dir, clock.now())
        except (StoreError, OSError):
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Write every state.json that is behind, and unlock the data folder."""
        self.settle()
        self._open.clear()
        os.close(self._lock)

    def holds(self, task_id: str) -> bool:
        """Return whether there is a task of this id, or a ticket that may become one."""
        return self.files.path_of(task_id).is_dir()

    def delete(self, task_id: str) -> None:
        """Remove a task with all its files. Raises OSError."""
        self.release(task_id)
        self.files.delete(task_id)

    @property
    def events(self) -> FolderEventLog:
        """All committed decisions in order; decisions that a crash left out of the order are added on first use."""
        if self._events is None:
            self._events = FolderEventLog(self.data_dir, self.files)
        return self._events

    def commit(self, before: Task | None, after: Task, event: Event) -> None:
        """Write one decision to disk and number it; when this returns, the decision cannot be lost.

        Raises OSError if the disk is full or read-only, SequenceConflict if `after` does not follow the last stored
        decision, and other StoreErrors; then nothing was decided.
        """
        events, document = self.events, to_document(after)
        if before is None:
            live = self._create(after, event, document)
        else:
            live = self._open_task(before, after)
            try:
                live.journal.append(line_of(before, after, event, difference(live.document, document)))
            except (DamagedJournal, TaskFolderGone) as error:
                live = self._mended(before, after, error)
                live.journal.append(line_of(before, after, event, difference(live.document, document)))
        live.document = live.unwritten = document
        live.before_migration = None
        self._stale.add(after.id)
        events.append(after, event, live.journal.end, live.journal.last)

    def settle(self) -> list[ForeignEdit]:
        """Replace every state.json that is behind its journal, and write the order of events: once for a burst.

        Files that another program wrote there are set aside and returned.
        """
        found, self._mended_files = self._mended_files, []
        if self._events is not None:
            self._events.flush()
        for task_id in self._stale:
            live = self._open[task_id]
            if live.unwritten is not None:
                found += self._renew_state(live, live.unwritten)
        self._stale.clear()
        return found

    def note_telemetry(self, task: Task) -> None:
        """Write usage, progress and how far output was read into state.json. Raises OSError.

        A file that another program wrote meanwhile stays for `foreign_edits`, which writes the same.
        """
        live = self._open[task.id]
        if live.before_migration is not None or not live.state.is_ours():
            return
        live.document = _without_agent(live.document)
        self._write_state(live, to_document(task))

    def release(self, task_id: str) -> None:
        """Close a task, with its state.json up to date. Does nothing if the task is not open."""
        live = self._open.pop(task_id, None)
        self._stale.discard(task_id)
        if live is not None and live.unwritten is not None:
            self._renew_state(live, live.unwritten)

    def save_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint with the state to rebuild from; a failure to write it is only logged."""
        try:
            live, folder = self._open[task.id], self.files.path_of(task.id)
            checkpoint_files.write(folder, checkpoint, live.document_of(task), live.journal.end)
        except OSError as error:
            log.warning("checkpoint_not_written", task=task.id, number=checkpoint.number, error=str(error))

    def checkpoints(self, task_id: str) -> list[Checkpoint]:
        return checkpoint_files.kept(self.files.path_of(task_id))

    def checkpoint(self, task_id: str, number: int) -> Checkpoint:
        return checkpoint_files.found(self.files.path_of(task_id), number)

    def pin_checkpoint(self, task_id: str, number: int, *, pinned: bool) -> Checkpoint:
        return checkpoint_files.pin(self.files.path_of(task_id), number, pinned=pinned)

    def keep_account(self, kept: AccountState) -> bool:
        try:
            write_atomically(self.data_dir / ACCOUNT_FILE, orjson.dumps(to_json(kept), option=orjson.OPT_INDENT_2))
        except OSError as error:
            log.warning("account_not_written", error=str(error))
            return False
        return True

    def account(self) -> AccountState:
        try:
            return from_json(AccountState, orjson.loads((self.data_dir / ACCOUNT_FILE).read_bytes()))
        except FileNotFoundError:
            return AccountState()
        except (OSError, ValueError, TypeError) as error:
            log.warning("account_not_read", error=str(error))
            return AccountState()

    def summaries(self) -> Iterator[TaskSummary | StoreError]:
        """Yield every task's summary, or why there is none; only the top of an intact state.json is read."""
        return summaries(self.files.root, self._renewed)

    def load(self, task_id: str, *, keep_open: bool = False) -> LoadedTask:
        """Return a task from disk; with `keep_open` repair its files, so that decisions can be committed to it.

        Raises OSError and StoreError: FutureFile, DamagedJournal, or that there is no such task.
        """
        version = None if keep_open else version_of([self.files.path_of(task_id, name) for name in (NAME, STATE)])
        if known := self._read.unchanged(task_id, version):
            return known
        loaded = self._load(task_id, keep_open=keep_open)
        if not (loaded.edits or loaded.changed):
            self._read.keep(task_id, version, loaded)
        return loaded

    def _load(self, task_id: str, *, keep_open: bool) -> LoadedTask:
        folder = self.files.path_of(task_id)
        found, state, foreign = state_and_journal(folder)
        document, end = found.document, found.end
        task = _relocated(_task_from(folder, document), folder)
        require_own(task_id, task.id)
        kept_as = damaged = None
        if keep_open:
            self.release(task_id)
            kept_as = set_aside(folder, task.seq) if foreign else None
            if found.is_damaged:
                line = recovered_line(task_id, document, stamp(task.updated_at))
                damaged, end = mend(folder, found, line)
                log.warning("journal_mended", task=task_id, kept_as=damaged, was_short=found.is_short)
            state_file = StateFile(folder)
            state_file.adopt()
            self._open[task_id] = live = _OpenTask(Journal(folder, end), _without_agent(document), state_file)
            live.before_migration = None if is_current(document) else document
            self._renew_state(live, live.document_of(task))
        changed = changes(document, state if foreign else None)
        return LoadedTask(task=task, foreign=kept_as, changed=changed, damaged=damaged)

    def _renewed(self, task_id: str) -> Task:
        """Return a task whose state.json cannot be listed; next time it can, if an earlier version sealed it."""
        task = self.load(task_id).task
        if task_id not in self._open:
            renew_seal(self.files.path_of(task_id))
        return task

    def foreign_edits(self, task: Task) -> list[ForeignEdit]:
        """Set aside a state.json that another program wrote while the task is open, and write ours again."""
        live = self._open.get(task.id)
        if live is None or not self.files.path_of(task.id).is_dir() or live.state.is_ours():
            return []
        live.document = _without_agent(live.document)
        return self._renew_state(live, live.document_of(task))

    def _open_task(self, before: Task, after: Task) -> _OpenTask:
        """Return the open task that a decision is to be added to. Raises SequenceConflict and StoreError."""
        live = self._open.get(after.id)
        if live is None:
            raise StoreError(f"{after.id} is not open; load it to be kept open")
        stored = cast(int, live.document["seq"])
        if (before.seq, after.seq) != (stored, stored + 1):
            raise SequenceConflict(after.id, stored, after.seq)
        return live

    def _mended(self, before: Task, after: Task, error: StoreError) -> _OpenTask:
        """Return an open task whose journal another program damaged, mended. Raises `error` if a decision is lost."""
        try:
            self.release(before.id)
            self._mended_files += self.load(before.id, keep_open=True).edits
            return self._open_task(before, after)
        except StoreError:
            raise error from None

    def _create(self, task: Task, event: Event, document: JsonObject) -> _OpenTask:
        """Write the first decision of a new task; if that fails, delete the journal again."""
        folder = make_private(self.files.path_of(task.id))
        live = _OpenTask(Journal(folder), {}, StateFile(folder))
        try:
            live.journal.append(line_of(None, task, event, difference({}, document)))
            sync_folder(folder)
            sync_folder(self.files.root)
        except (OSError, StoreError):
            live.journal.delete()
            raise
        self._open[task.id] = live
        return live

    def _renew_state(self, live: _OpenTask, document: JsonObject) -> list[ForeignEdit]:
        """Write state.json after the journal; if that fails, the old one stays and the next load catches up.

        A file that another program wrote meanwhile is set aside and returned.
        """
        found: list[ForeignEdit] = []
        try:
            found = live.state.set_aside_foreign(cast(int, live.document["seq"]))
            self._write_state(live, document)
        except OSError as error:
            log.warning("state_not_written", task=live.journal.folder.name, error=str(error))
        return found

    def _write_state(self, live: _OpenTask, document: JsonObject) -> None:
        live.state.replace(document, live.journal.end)
        live.unwritten = None


def _task_from(folder: Path, document: JsonObject) -> Task:
    require_known(folder / NAME, document)
    try:
        return from_document(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamagedJournal(f"the journal in {folder} does not add up to a task: {error!r}") from error


def _relocated(task: Task, folder: Path) -> Task:
    """Return the task with its paths as they are now, in case the data folder was moved or restored elsewhere."""
    if task.folder == str(folder) or Path(task.folder).parts[-2:] != folder.parts[-2:]:
        return task
    before, now, worktree = Path(task.folder).parent.parent, folder.parent.parent, task.source.worktree
    if worktree is not None and Path(worktree).is_relative_to(before):
        worktree = str(now / Path(worktree).relative_to(before))
    return replace(task, folder=str(folder), source=replace(task.source, worktree=worktree))


def _without_agent(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if name != "agent"}
