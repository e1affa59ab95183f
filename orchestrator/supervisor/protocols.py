"""What the supervisor needs of the world, and all that it knows of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestrator.core.events.commands import Command
from orchestrator.core.events.events import Event
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.usage_limits import AccountState


class ForeignEdit(Protocol):
    """A state.json that another hand had written: what it was kept as, and what it had changed."""

    @property
    def task_id(self) -> str: ...
    @property
    def kept_as(self) -> str: ...
    @property
    def changed(self) -> tuple[str, ...]: ...


class Store(Protocol):
    """Where decisions are kept; `commit` returns when a decision cannot be lost, `settle` when all files tell of it."""

    def commit(self, before: Task | None, after: Task, event: Event) -> None: ...
    def settle(self) -> Sequence[ForeignEdit]: ...
    def note_telemetry(self, task: Task) -> None: ...
    def release(self, task_id: str) -> None: ...
    def foreign_edits(self, task: Task) -> Sequence[ForeignEdit]: ...
    def keep_account(self, kept: AccountState) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLookups:
    """What the loop asks about a task and is not in it: its pipeline, and the model that it would use next."""

    pipeline_of: Callable[[Task], Pipeline]
    model_of: Callable[[Task], str]


class CommandExecutor(Protocol):
    """Whatever carries commands out; answers come back as events, later."""

    def execute(self, task: Task, command: Command) -> None: ...
    def run_alive(self, task: Task) -> bool: ...
    def abandon(self, task: Task) -> None: ...
    def checkpoint(self, task: Task, reason: Reason) -> None: ...
