"""Take checkpoints, one at a time for each task, and restore what they saved.

    decision ──► ask ──► look at the worktree ──► CheckpointSaved ──► on_decision ──► written with the state then
                 (a burst makes one)   (a thread)                    (supervisor)       (store)

In this order the file fits the journal: its state is the one after the decision that records the checkpoint. A crash in
between loses the checkpoint and nothing else.

Restoring never destroys anything. Saved work comes as a new branch into the user's repository. It is written into the
worktree only if no process of the task is alive, and after the present files were saved in a pinned checkpoint. That
happens while the task's commands wait, so that no agent starts meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.events import CheckpointSaved, Event
from orchestrator.core.task.checkpoint import Checkpoint, CheckpointContext, Reason, SavedWork, checkpoint_of
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.errors import InvalidTransition, OrchestratorError
from orchestrator.formats.files import parsed, read_file
from orchestrator.redaction.display import escape_text
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.delivery.user_branches import DeliveredBranch
from orchestrator.workspaces.removal.unmerged import lost_with_worktree
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

NO_ARTIFACT = ("state.json", "ticket.json")
MOST_NAMES = 1000
MOST_UNCOMMITTED = 50

Turn = Callable[[str], AbstractAsyncContextManager[None]]


class NothingSaved(OrchestratorError):
    """A checkpoint contains no work that could be restored."""


class NotAtRest(InvalidTransition):
    """The worktree of a task can be changed only while no process works in it."""

    def __init__(self, task: Task) -> None:
        super().__init__("restore a checkpoint in the worktree of", task.status, task.stage, allowed(task))

    def __str__(self) -> str:
        return (
            f"{super().__str__()}. It must be blocked, or paused with its agent ended; "
            "without --in-place the work comes as a branch, at any time"
        )


class CheckpointStore(Protocol):
    """The store that checkpoints are written to, together with the state."""

    @property
    def files(self) -> TaskFiles: ...
    def save_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None: ...
    def checkpoints(self, task_id: str) -> list[Checkpoint]: ...
    def checkpoint(self, task_id: str, number: int) -> Checkpoint: ...
    def pin_checkpoint(self, task_id: str, number: int, *, pinned: bool) -> Checkpoint: ...


class EventSink(Protocol):
    """Where it is reported that a checkpoint was taken."""

    def post(self, task_id: str, event: Event) -> None: ...
    def request(self, task_id: str, event: Event, *, ended: Task | None = None) -> Awaitable[Task]: ...


class Checkpoints:
    """The checkpoints of all tasks; used from the supervisor's event loop.

    `turn` holds back a task's commands while its worktree is changed.
    """

    def __init__(
        self, workspace: Workspace, store: CheckpointStore, inbox: EventSink, turn: Turn, clock: Callable[[], datetime]
    ) -> None:
        self._workspace, self._store, self._inbox, self._turn, self._clock = workspace, store, inbox, turn, clock
        self._requested: dict[str, tuple[Task, Reason]] = {}
        self._in_progress: set[str] = set()
        self._taken: dict[tuple[str, int], Checkpoint] = {}
        self._last: dict[str, int] = {}

    def ask(self, task: Task, reason: Reason) -> bool:
        """Request a checkpoint of a task; return whether `take` must be called, because none is being taken."""
        self._requested[task.id] = (task, reason)
        return task.id not in self._in_progress

    async def take(self, task_id: str) -> None:
        """Take the requested checkpoint; if several were requested, the last one. One that fails is only logged."""
        if task_id in self._in_progress:
            return
        self._in_progress.add(task_id)
        try:
            while asked := self._requested.pop(task_id, None):
                try:
                    self._inbox.post(task_id, await self._saved(*asked))
                except (OrchestratorError, OSError) as error:  # its folder was deleted, or files are short
                    log.warning("checkpoint_not_taken", task=task_id, reason=str(error))
        finally:
            self._in_progress.discard(task_id)

    def on_decision(self, task: Task, event: Event) -> None:
        """Write the checkpoint that a decision records, with the state after it."""
        if isinstance(event, CheckpointSaved):
            taken = self._taken.pop((task.id, event.number), None)
            if taken is not None:
                self._store.save_checkpoint(task, taken)
        if task.status.is_final and task.run is None:
            self._forget(task.id)

    def kept(self, task: Task) -> list[Checkpoint]:
        """Return every checkpoint of the task, newest first. Blocks."""
        return self._store.checkpoints(task.id)

    def found(self, task: Task, number: int) -> Checkpoint:
        """Return one checkpoint. Blocks. Raises NoSuchCheckpoint."""
        return self._store.checkpoint(task.id, number)

    def pin(self, task: Task, number: int, *, pinned: bool) -> Checkpoint:
        """Keep a checkpoint for good, or no longer than the others. Raises NoSuchCheckpoint and OSError."""
        return self._store.pin_checkpoint(task.id, number, pinned=pinned)

    async def restore(self, task: Task, number: int, branch: str | None = None) -> DeliveredBranch:
        """Bring saved work into the user's repository as a new branch, `orchestrator/<task>/checkpoint-<n>` by default.

        Raises NoSuchCheckpoint, NothingSaved, WorkspaceError, DeliveryError and RepositoryError.
        """
        work = self._work(task, number)
        name = branch or f"orchestrator/{task.id}/checkpoint-{number}"
        return await asyncio.to_thread(self._workspace.restore, task.id, Path(task.source.repo), name, work.whole)

    async def restore_in_place(self, task: Task, number: int) -> Checkpoint:
        """Write a checkpoint's files into the worktree; return the pinned checkpoint of those that were there before.

        Raises what `restore` raises, and NotAtRest if a process of the task is alive or may start.
        """
        work = self._work(task, number)
        _require_rest(task)
        async with self._turn(task.id):
            saved = await self._saved(task, Reason.USER, pinned=True)
            now = await self._inbox.request(task.id, saved)
            _require_rest(now)
            present = self.found(now, saved.number)
            if present.work is None:
                raise NothingSaved(
                    f"the worktree of {task.id} cannot be read, so its files could not be saved; "
                    "nothing was changed; without --in-place the work comes as a branch"
                )
            await asyncio.to_thread(self._workspace.bring_to, task.id, work.whole)
        return present

    def restore_worktree(self, task: Task) -> str | None:
        """Create a lost worktree of the task again from the work of its newest checkpoint; return its source.

        Where the branch has moved on since that checkpoint, its files would undo newer commits: then the worktree is at
        the newest commit. Returns None, and does nothing, if the worktree is there. Blocks. Raises WorkspaceError and
        GitError.
        """
        if task.source.worktree is None or self._workspace.worktree(task.id).exists():
            return None
        source = task.source
        self._workspace.prepare(task.id, Path(source.repo), source.commit, source.branch)
        head = self._workspace.clone_of(task.id).ref(f"refs/orchestrator/{task.id}/head") or source.commit
        newest = next((one for one in self.kept(task) if one.work is not None), None)
        if newest is None or newest.work is None or newest.work.head != head:
            return f"commit {head}"
        self._workspace.bring_to(task.id, newest.work.whole)
        return f"checkpoint {newest.number}"

    async def save_ended(self, task: Task) -> SavedWork | None:
        """Take a checkpoint of an ended task, which must be open in the store; it is kept for good.

        Return its work; None if there is no worktree.

        Raises NothingSaved if the worktree is there and cannot be read, or has work that no checkpoint takes in.
        """
        if not self._workspace.worktree(task.id).is_dir():
            return None
        await asyncio.to_thread(self._require_savable, task.id)
        saved = await self._saved(task, Reason.USER, pinned=True)
        now = await self._inbox.request(task.id, saved, ended=task)
        work = self.found(now, saved.number).work
        if work is None:
            raise NothingSaved(f"the worktree of {task.id} cannot be read, so its files could not be saved")
        return work

    def _require_savable(self, task_id: str) -> None:
        """Raise NothingSaved if the worktree has work that no checkpoint takes in. Blocks."""
        place = escape_text(str(self._workspace.worktree(task_id)))
        try:
            lost = lost_with_worktree(self._workspace, task_id)
        except (OrchestratorError, OSError) as error:
            raise NothingSaved(f"{place} cannot be read, so its files could not be saved: {error}") from error
        if lost:
            raise NothingSaved(
                f"{place} has work that no checkpoint keeps, and it would be lost: {lost}; a checkpoint keeps neither"
                " ignored files, files above 64 MiB, repositories inside it, nor other branches: commit, move or delete"
                " them, then try again"
            )

    async def _saved(self, task: Task, reason: Reason, *, pinned: bool = False) -> CheckpointSaved:
        """Collect what is saved besides the state, and keep it until the decision."""
        number = self._last[task.id] = max(task.seq, self._last.get(task.id, 0) + 1)
        context = await asyncio.to_thread(self._collect, task, number)
        at = self._clock()
        if task.id in self._last:  # otherwise the task ended meanwhile, and its checkpoint will not be written
            self._taken[task.id, number] = replace(checkpoint_of(task, number, at, reason, context), pinned=pinned)
        commit = context.work.commit if context.work else None
        return CheckpointSaved(at=at, number=number, commit=commit, reason=reason, uncommitted=context.uncommitted)

    def _collect(self, task: Task, number: int) -> CheckpointContext:
        folder = self._store.files.path_of(task.id)
        work: SavedWork | None = None
        uncommitted: tuple[str, ...] = ()
        if task.source.worktree is not None:
            text = f"checkpoint {number} of {task.id} in {task.stage}"
            try:
                work = self._workspace.checkpoint(task.id, number, text)
                uncommitted = self._files_of(task, work)
                self._workspace.forget(task.id, {one.number for one in self._store.checkpoints(task.id)})
            except (OrchestratorError, OSError) as error:
                log.warning("checkpoint_without_work", task=task.id, reason=str(error))
        return CheckpointContext(
            work=work,
            uncommitted=uncommitted,
            environment=tuple(_environment(folder / f"agents/{task.agent.attempt}/spec.json")),
            artifacts=tuple(_artifacts(folder)),
        )

    def _files_of(self, task: Task, work: SavedWork) -> tuple[str, ...]:
        """Return the files with uncommitted work."""
        if work.commit is None:
            return ()
        flags = ("-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
        listed = self._workspace.git_of(task.id).run("diff-tree", *flags, work.head, work.commit, "--")
        return tuple(escape_text(name) for name in listed.split("\0") if name)[:MOST_UNCOMMITTED]

    def _work(self, task: Task, number: int) -> SavedWork:
        work = self.found(task, number).work
        if work is None:
            raise NothingSaved(
                f"checkpoint {number} of {task.id} contains no work: its worktree could not be read at that time"
            )
        return work

    def _forget(self, task_id: str) -> None:
        """Drop what is remembered of a task that has ended."""
        self._last.pop(task_id, None)
        self._requested.pop(task_id, None)
        for key in [key for key in self._taken if key[0] == task_id]:
            del self._taken[key]


def _require_rest(task: Task) -> None:
    resting = task.is_paused or task.status is TaskStatus.BLOCKED
    if task.run is not None or not resting or task.status.is_final:
        raise NotAtRest(task)


def _environment(spec: Path) -> list[str]:
    """Return the names of the variables that a run was started with; their values may be secrets."""
    try:
        env = (parsed(read_file(spec) or b"") or {}).get("env")
    except OSError:
        return []
    return sorted(escape_text(name) for name in env)[:MOST_NAMES] if isinstance(env, dict) else []


def _artifacts(folder: Path) -> Iterator[str]:
    """Yield the names of the artifacts in the task's folder."""
    names = sorted(path.name for path in folder.glob("*.*") if path.suffix in {".md", ".json"} and path.is_file())
    yield from (escape_text(name) for name in names[:MOST_NAMES] if not name.startswith(NO_ARTIFACT))
