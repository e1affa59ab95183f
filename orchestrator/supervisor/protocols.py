"""The interfaces through which the supervisor uses the rest of the program."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from orchestrator.core.events.commands import Command
from orchestrator.core.events.events import Event
from orchestrator.core.schedule.trouble import AccountState
from orchestrator.core.task.checkpoint import Checkpoint, Reason
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.storage.records import Cursor, Events, ForeignEdit, LoadedTask, StoreError, TaskSummary


class EventLog(Protocol):
    """Every committed decision of every task in one order, numbered from one without gaps.

    The store numbers a decision when it commits it. A number, once read, means the same decision forever, also after
    a crash and a restart. A decision that is lost or damaged is read as a gap.
    """

    @property
    def last(self) -> int:
        """The number of the newest decision, 0 if there is none."""

    @property
    def written(self) -> int:
        """How many bytes of decisions were committed since the store was opened."""

    def after(self, number: int) -> Cursor:
        """Return the cursor behind the decision of that number; a negative number counts from the end."""

    def since(self, at: str) -> Cursor:
        """Return the cursor before the first decision at that time or later; the time is given as a stamp."""

    def read(self, cursor: Cursor) -> Events:
        """Return some decisions of all tasks behind the cursor, none only at the end, and the cursor behind them.

        A cursor beyond the newest decision gives a gap and the cursor at the end. Blocks; may be called in any thread.
        """

    def read_task(self, task_id: str, cursor: Cursor) -> Events:
        """Return some decisions of one task, numbered as its own; reading begins at Cursor(number=0). As `read`."""


class Store(Protocol):
    """Where tasks, their decisions and the account are kept; one process at a time writes to a store.

    A decision is committed in three steps: it is made durable, it gets the next number in `events`, and listeners
    are called. A crash between the first two loses nothing: the next use of the store numbers the decision. What other
    programs see of a task (state.json of the folder store) may lag behind until `settle`.

    tests/integration/storage/store_contract.py is the contract that every implementation has to pass.
    """

    @property
    def events(self) -> EventLog: ...

    def close(self) -> None:
        """Write what `settle` would write, and let another process open the store."""

    def commit(self, before: Task | None, after: Task, event: Event) -> None:
        """Store one decision and number it; when this returns, no crash can lose it.

        `before` is the task as it was last committed or loaded, None for a new one. Raises SequenceConflict if
        `after.seq` is not the next one, OSError if the storage refuses for now, and StoreError; then nothing changed.
        """

    def settle(self) -> Sequence[ForeignEdit]:
        """Bring what other programs see up to date: once for a burst of decisions. Return what they had changed."""

    def note_telemetry(self, task: Task) -> None:
        """Store usage, progress and how far output was read: no decision, so it may be lost in a crash.

        Raises OSError.
        """

    def release(self, task_id: str) -> None:
        """Close a task: no decision can be committed to it until it is loaded to be kept open. Idempotent."""

    def load(self, task_id: str, *, keep_open: bool = False) -> LoadedTask:
        """Return a task as it was last committed, with telemetry where that survived.

        With `keep_open` decisions can be committed to it, and damage that can be repaired is repaired. Raises
        StoreError if there is no such task or it cannot be read, and OSError.
        """

    def holds(self, task_id: str) -> bool:
        """Return whether there is a task of this id, committed or about to be."""

    def summaries(self) -> Iterator[TaskSummary | StoreError]:
        """Yield every task's summary, or why there is none: UncommittedTask, or another StoreError."""

    def delete(self, task_id: str) -> None:
        """Remove a task with everything that is kept of it; its decisions become gaps in `events`. Raises OSError."""

    def foreign_edits(self, task: Task) -> Sequence[ForeignEdit]:
        """Undo what another program wrote in place of an open task's state, and return what it had changed."""

    def save_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint of an open task, and drop those it supersedes; a failure is only logged."""

    def checkpoints(self, task_id: str) -> list[Checkpoint]:
        """Return every readable checkpoint of a task, newest first."""

    def checkpoint(self, task_id: str, number: int) -> Checkpoint:
        """Return one checkpoint. Raises NoSuchCheckpoint."""

    def pin_checkpoint(self, task_id: str, number: int, *, pinned: bool) -> Checkpoint:
        """Keep a checkpoint for good, or no longer than the others. Raises NoSuchCheckpoint and OSError."""

    def keep_account(self, kept: AccountState) -> bool:
        """Store the state shared by all tasks; return whether that succeeded."""

    def account(self) -> AccountState:
        """Return the state shared by all tasks; an empty one if none was stored or it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLookups:
    """What the loop looks up: the time, a task's pipeline, and the model that the task's next turn would use."""

    clock: Callable[[], datetime]
    pipeline_of: Callable[[Task], Pipeline]
    model_of: Callable[[Task], str]


class Executor(Protocol):
    """Executes commands. Every method returns at once; results arrive in the inbox later."""

    def execute(self, task: Task, command: Command) -> None:
        """Start to execute a command; its effect is looked for first, so it may be given again after a crash."""

    def run_alive(self, task: Task) -> bool:
        """Return whether the holder of the task's run is alive."""

    def abandon(self, task: Task) -> None:
        """Kill what is left of a task that can no longer be decided about."""

    def checkpoint(self, task: Task, reason: Reason) -> None:
        """Start to save what recovery needs beyond the state."""
