"""Checkpoints as values: what one holds, when one is taken, which ones are kept, and what is known without any.

A checkpoint holds what recovery needs beyond the state, such as uncommitted work. It is taken after a decision, but no
command waits for it: a checkpoint that is lost does no harm.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from orchestrator.core.events.events import Event, RunFrozen
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.pipeline import Stage
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import Task, TaskStatus

KEPT = 10
"""The number of checkpoints that are kept besides the pinned ones."""


class Reason(StrEnum):
    """Why a checkpoint was taken."""

    INTERVAL = "interval"
    """Ten minutes of an agent's work had passed."""
    FREEZE = "freeze"
    """The task's processes were frozen."""
    LIMIT = "limit"
    """The account had reached a usage limit."""
    ERROR = "error"
    """Something failed, or the task was blocked."""
    PHASE = "phase"
    """A stage was completed."""
    STOP = "stop"
    """The daemon was told to stop."""
    USER = "user"
    """A person paused the task, or restored another checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """Where the task stood; `progress` in percent."""

    status: TaskStatus
    stage: str
    step: int | None
    progress: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """The agent, and what the task had used so far."""

    status: AgentStatus
    role: str | None
    attempt: int
    session_id: str | None
    turn: int
    tokens_used: int
    cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWork:
    """The worktree: its `head`, and a `commit` of the uncommitted work, if there was any, with its size."""

    head: str
    commit: str | None = None
    files: int = 0
    added: int = 0
    removed: int = 0

    @property
    def whole(self) -> str:
        """Return the commit that has every file as it was."""
        return self.commit or self.head


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContext:
    """What a checkpoint needs from outside the task; `environment` has names of variables and never a value."""

    work: SavedWork | None = None
    environment: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint, as in checkpoints/<number>.json; `work` is None if the worktree could not be read."""

    number: int
    at: datetime
    reason: Reason
    task: TaskSnapshot
    agent: AgentSnapshot
    work: SavedWork | None = None
    environment: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    pinned: bool = False


def reason_for(before: Task, after: Task, event: Event) -> Reason | None:
    """Return why to take a checkpoint after a decision; None if there is no reason, or the task has ended for good."""
    if after.status.is_final and after.run is None:
        return None
    if isinstance(event, RunFrozen) and after is not before:
        return _frozen_by(after.agent.blocked_by if after.is_paused else None)
    if after.waits_for_service and not before.waits_for_service:
        return Reason.LIMIT
    if after.failures.total > before.failures.total or _moved_to(before, after, TaskStatus.BLOCKED):
        return Reason.ERROR
    return Reason.PHASE if _completed(after) - _completed(before) else None


def checkpoint_of(task: Task, number: int, at: datetime, reason: Reason, around: CheckpointContext) -> Checkpoint:
    """Return a checkpoint of the task as it is."""
    agent = task.agent
    return Checkpoint(
        number=number,
        at=at,
        reason=reason,
        task=TaskSnapshot(status=task.status, stage=task.stage, step=agent.turn.step, progress=task.progress),
        agent=AgentSnapshot(
            status=agent.status,
            role=agent.role,
            attempt=agent.attempt,
            session_id=agent.session.id,
            turn=agent.turn.number,
            tokens_used=agent.usage.tokens,
            cost_usd=agent.usage.cost_usd,
        ),
        work=around.work,
        environment=around.environment,
        artifacts=around.artifacts,
    )


def superseded_checkpoints(checkpoints: Iterable[Checkpoint]) -> tuple[int, ...]:
    """Return the numbers of the checkpoints to delete: all but the newest ten and the pinned ones.

    The end of a stage pins nothing, because commits and artifacts are never deleted.
    """
    unpinned = sorted((one.number for one in checkpoints if not one.pinned), reverse=True)
    return tuple(unpinned[KEPT:])


def infer_task(stages: Iterable[Stage], artifacts: Collection[str], commits: int) -> str | None:
    """Return the stage that a task had reached, judged by its artifacts and commits; None without stages.

    It is the last stage that left something. That stage may have been complete; nobody knows.
    """
    reached = None
    for stage in stages:
        left = any(fnmatchcase(name, pattern) for name in artifacts for pattern in stage.artifacts)
        if reached is None or left or (commits and stage.work.commits):
            reached = stage.name
    return reached


def _frozen_by(cause: PauseReason | None) -> Reason:
    match cause:
        case PauseReason.RATE_LIMIT:
            return Reason.LIMIT
        case PauseReason.USER:
            return Reason.USER
        case _:
            return Reason.FREEZE


def _moved_to(before: Task, after: Task, status: TaskStatus) -> bool:
    return after.status is status and before.status is not status


def _completed(task: Task) -> set[tuple[str, int]]:
    """Return the completed stages, each with the visit that completed it."""
    return {(name, one.visits) for name, one in task.stages.items() if one.status is StageStatus.COMPLETED}
