"""Carry out what a plan says, one item at a time; each is logged with its evidence, and a crash leaves none in half."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import orjson

from orchestrator.core.retention.plan import Action, Removal
from orchestrator.core.retention.policy import Kind
from orchestrator.daemon.housekeeping.inventory import is_plain_output, kind_of_run_file
from orchestrator.daemon.sources.in_use import SourcesInUse
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.disk.seekable import compress_file
from orchestrator.formats.files import write_atomically
from orchestrator.storage.removal.log import is_full
from orchestrator.storage.removal.trash import Discard, Trash
from orchestrator.storage.store import FolderStore
from orchestrator.storage.task_files import AGENTS, REMOVED
from orchestrator.workspaces.removal.unmerged import clone_paths, drop_checkpoints, tasks_of_clones
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover:
    """Removes and compresses files of ended tasks; every method blocks and raises OSError and OrchestratorError."""

    store: FolderStore
    workspace: Workspace
    trash: Trash
    sources: SourcesInUse
    clock: Callable[[], datetime]

    def carry_out(self, removal: Removal, by: str, live: Callable[[], Mapping[str, str]]) -> int:
        """Compress a transcript, remove a clone or a source; return the bytes that are free after that.

        `live` returns the repositories of the tasks that have not ended, by their ids.
        """
        record = self.record(removal, by)
        if removal.action is Action.COMPRESS:
            return self._compress(removal, record)
        if removal.item.kind is Kind.SOURCES:
            return self._remove_source(removal, record, live)
        return self._remove_clone(removal, record, live)

    def discard(self, removals: Sequence[Removal], by: str) -> list[bool]:
        """Remove items together that are no clones and no whole tasks; return of which there was anything."""
        with ExitStack() as given_up:
            doomed = [Discard(paths=self._paths(one, given_up), record=self.record(one, by)) for one in removals]
            for one in doomed:
                self._leave_word(one)
            there = self.trash.discard_all(doomed)
        drop_checkpoints(self.workspace, [one.item.task for one in removals if one.item.kind is Kind.CHECKPOINTS])
        return there

    def note(self, removal: Removal, by: str) -> None:
        """Log what somebody else carried out."""
        self.trash.removals.note({uuid4().hex: self.record(removal, by)})

    def record(self, removal: Removal, by: str) -> JsonObject:
        """Return the evidence for one removal."""
        item = removal.item
        return {
            "at": stamp(self.clock()),
            "action": removal.action.value,
            "kind": item.kind.value,
            "name": item.name,
            "task": item.task,
            "bytes": item.size,
            "since": stamp(item.since),
            "rule": removal.rule,
            "by": by,
        }

    def _leave_word(self, doomed: Discard) -> None:
        """Say in the folder of every agent why it has no transcript any more, unless the disk is full."""
        if doomed.record["kind"] != Kind.TRANSCRIPTS or not doomed.paths:
            return
        word = orjson.dumps({name: doomed.record[name] for name in ("at", "rule", "by")})
        for folder in {path.parent for path in doomed.paths}:
            try:
                write_atomically(folder / REMOVED, word, durable=False)
            except OSError as error:
                if not is_full(error):
                    raise

    def _agents(self, task_id: str) -> list[Path]:
        return [folder for folder in self.store.files.run_folders(task_id) if folder.parent.name == AGENTS]

    def _compress(self, removal: Removal, record: JsonObject) -> int:
        freed = 0
        for folder in self._agents(removal.item.task):
            for path in sorted(folder.iterdir()):
                if is_plain_output(path.name) and path.is_file() and not path.is_symlink():
                    before = path.stat().st_size
                    freed += before - compress_file(path)
        self.trash.removals.note({uuid4().hex: {**record, "bytes": freed}})
        return freed

    def _remove_clone(self, removal: Removal, record: JsonObject, live: Callable[[], Mapping[str, str]]) -> int:
        """Remove a clone unless a task has begun to use it since it was planned."""
        name = Path(removal.item.name).name
        with self.workspace.preparing:
            tasks = tasks_of_clones(self.store.data_dir).get(name, [])
            if not set(tasks).isdisjoint(live()):
                return 0
            self.trash.discard_all([Discard(paths=clone_paths(self.store.data_dir, name, tasks), record=record)])
        return removal.item.size

    def _remove_source(self, removal: Removal, record: JsonObject, live: Callable[[], Mapping[str, str]]) -> int:
        """Remove a copy of a repository elsewhere unless somebody has begun to use it since it was planned."""
        item, folder = removal.item, self.store.data_dir / removal.item.name
        with self.sources.unused(folder.name) as free:
            is_older = folder.is_dir() and folder.stat().st_mtime <= item.since.timestamp()
            if not free or not is_older or str(folder) in live().values():
                return 0
            self.trash.discard_all([Discard(paths=[folder], record=record)])
        return item.size

    def _paths(self, removal: Removal, given_up: ExitStack) -> list[Path]:
        """Return the files and folders of an item; a worktree's are nobody else's until `given_up` is closed."""
        kind, data = removal.item.kind, self.store.data_dir
        if kind is Kind.WORKTREES:
            return given_up.enter_context(self.workspace.giving_up(Path(removal.item.name).name))
        if kind is Kind.QUARANTINE:
            text = data / removal.item.name
            return [text, text.with_suffix(".json")]
        folder = self.store.files.path_of(removal.item.task)
        if kind is Kind.FOREIGN_EDITS:
            return [*folder.glob("*.foreign-*"), *folder.glob("*.damaged-*")]
        runs = [path for run in self._agents(removal.item.task) for path in run.iterdir()]
        of_runs = [path for path in runs if kind_of_run_file(path.name) is kind]
        names = {Kind.LOGS: "logs", Kind.SESSIONS: "claude", Kind.CHECKPOINTS: "checkpoints"}
        return [*of_runs, *([folder / names[kind]] if kind in names else [])]
