"""Checkpoints: what they contain, why they are taken, which are kept, and what can be inferred without one.

A checkpoint holds what recovery needs beyond the state, such as uncommitted work. It is taken after a decision, but no
command waits for it: a checkpoint that is lost does no harm.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.pipeline import Stage
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
    """A person paused or archived the task, or restored another checkpoint."""


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
    """What a checkpoint needs from outside the task; `environment` has names of variables and never a value.

    `uncommitted` are the files with uncommitted work, the first of them if there are many.
    """

    work: SavedWork | None = None
    uncommitted: tuple[str, ...] = ()
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

    It is the last stage that left something; whether that stage was complete is unknown.
    """
    reached = None
    for stage in stages:
        left = any(fnmatchcase(name, pattern) for name in artifacts for pattern in stage.artifacts)
        if reached is None or left or (commits and stage.shows_branch):
            reached = stage.name
    return reached
