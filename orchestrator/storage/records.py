"""The values that every store returns and the errors that it raises, wherever it keeps its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.redaction.display import escape_text


class StoreError(OrchestratorError):
    """Something that is stored cannot be read or written."""


class StoreInUse(StoreError):
    """Another process has the store open."""


class SequenceConflict(StoreError):
    """A decision does not follow the last stored one; nothing was written."""

    def __init__(self, task_id: str, stored: int, offered: int) -> None:
        super().__init__(
            f"decision {offered} of {escape_text(task_id)} was refused because decision {stored} is the last one "
            "stored; load the task again"
        )


class UncommittedTask(StoreError):
    """A ticket was accepted, but its task is not committed: it is being submitted, or the daemon died meanwhile."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"the ticket in the folder {escape_text(task_id)} was never accepted")
        self.task_id = task_id


class UnreadableTask(StoreError):
    """The files of a task cannot be read; the message says why."""

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(reason)
        self.task_id = task_id


class CopiedFolder(StoreError):
    """A folder holds the files of another task."""


class NoSuchCheckpoint(OrchestratorError):
    """A task has no readable checkpoint of that number."""

    def __init__(self, task_id: str, number: int) -> None:
        super().__init__(
            f"{task_id} has no readable checkpoint {number} (`orchestrator checkpoints list {task_id}` lists them)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummary:
    """What lists show of a task; times are stamps, `files` are the names in its folder if the store has one."""

    id: str
    title: str
    ticket: str
    status: TaskStatus
    stage: str
    repo: str
    created_at: str
    updated_at: str
    pipeline: str
    parent: str | None = None
    priority: Priority | None = None
    running: bool = False
    spent: Mapping[str, Spending] = field(default_factory=dict)
    files: frozenset[str] = frozenset()

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do for the task; after a cancellation its run and its children may have to end."""
        return self.status.is_final and not self.running


def summary_of(task: Task) -> TaskSummary:
    """Return a task's summary."""
    return TaskSummary(
        id=task.id,
        title=task.title,
        ticket=task.ticket.key,
        status=task.status,
        stage=task.stage,
        repo=task.source.repo,
        created_at=stamp(task.timing.created_at),
        updated_at=stamp(task.updated_at),
        pipeline=task.pipeline,
        parent=task.parent,
        priority=task.schedule.priority,
        running=task.run is not None or bool(task.notices) or task.has_open_children,
        spent=task.spending.by_day,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEdit:
    """A state.json or the end of a journal that is not ours: its name now, and at most fifty changed paths."""

    task_id: str
    kept_as: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTask:
    """A task as it was found in the store.

    If something other than the daemon wrote its state.json, `changed` are the paths that differed and `foreign` is the
    name under which that file was kept. `damaged` is the name under which the end of its journal was kept, if that was
    no decision.
    """

    task: Task
    foreign: str | None = None
    changed: tuple[str, ...] = ()
    damaged: str | None = None

    @property
    def edits(self) -> tuple[ForeignEdit, ...]:
        """What was set aside."""
        found = ((self.foreign, self.changed), (self.damaged, ()))
        return tuple(
            ForeignEdit(task_id=self.task.id, kept_as=name, changed=changed) for name, changed in found if name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a reader has read: the number of the last event, and where the next one begins in the store."""

    number: int
    at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """A committed decision: its number in the order that is read, and its line of the journal."""

    number: int
    line: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGap:
    """Events up to `number` that cannot be read, and why; `deleted` if they went with their deleted task."""

    number: int
    reason: str
    deleted: bool = False


Events = tuple[list[EventRecord | EventGap], Cursor]
"""Some events in order, none only at the end, and the cursor behind them."""
