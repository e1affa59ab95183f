"""A task as a frozen value.

Three fields describe its state: its status, the stage of its pipeline and the status of its agent. `next_action` is
what the daemon has to do next; obligations.py turns it into commands. What can be derived is not stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from orchestrator.core.events.notice import Notice
from orchestrator.core.task.agent import NO_AGENT, PAUSED, Agent, KeptSession, PauseReason, Run, Setbacks, TurnProgress
from orchestrator.core.task.budget import NO_SPENDING, TaskSpending
from orchestrator.core.task.checks import NOT_EVALUATED, Evaluation
from orchestrator.core.task.children import Child
from orchestrator.core.task.failures import FailureLog
from orchestrator.core.task.progress import (
    Budget,
    StageRecord,
    StageStatus,
    Step,
    StepStatus,
    current_phase,
    phase_progress,
    total_phases,
)
from orchestrator.core.task.publication import NOT_PUBLISHED, Publication
from orchestrator.core.task.task_policy import DEFAULT_POLICY, TaskPolicy
from orchestrator.core.task.ticket import Ticket
from orchestrator.core.task.user_requests import Subject, UserRequest, pending


class TaskStatus(StrEnum):
    """The status of a task as a whole."""

    DRAFT = "draft"
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    REVIEW = "review"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    ARCHIVED = "archived"

    @property
    def is_final(self) -> bool:
        """Whether the task has ended, so that it can only be archived."""
        return self in _FINAL


_FINAL = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.ARCHIVED})

AS_STATE: Mapping[TaskStatus, str] = MappingProxyType(
    {TaskStatus.BLOCKED: "BLOCKED", TaskStatus.COMPLETED: "COMPLETED"}
)
"""Statuses that state operations and files show as a state, as if it were a stage."""


class Priority(StrEnum):
    """Which of two waiting tasks goes first."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


class NextAction(StrEnum):
    """What the daemon has to do next for a task, also after a restart."""

    NOTHING = "nothing"
    ADMISSION = "admission"
    WORKSPACE = "workspace"
    AGENT = "agent"
    TURN = "turn"
    INTERRUPT = "interrupt"
    GATE = "gate"
    STOP = "stop"
    RETRY = "retry"
    CHECKS = "checks"
    CHILDREN = "children"
    DELIVERY = "delivery"
    PUBLISH = "publish"
    MERGE = "merge"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The repository, what the work starts from, and the branch that it is done on.

    `head` is the newest commit that the daemon has seen there. `plain_folder` is the folder without git that the result
    is brought to; then the repository is one that the daemon made of it.
    """

    repo: str
    base_branch: str
    base_commit: str
    branch: str
    worktree: str | None = None
    head: str | None = None
    plain_folder: str = ""

    @property
    def commit(self) -> str:
        """The newest commit of the work, or the one that it starts from."""
        return self.head or self.base_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When the task may start: its priority, the tasks that must be completed before, and the earliest time.

    With `after_any_end` those tasks only have to have ended. `let_run_at` is when a person let it run although its run
    windows were closed; that holds until they close the next time. `made_by` names the schedule that submitted it.
    """

    priority: Priority = Priority.NORMAL
    after: tuple[str, ...] = ()
    after_any_end: bool = False
    start_at: datetime | None = None
    let_run_at: datetime | None = None
    made_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When the task was created, started and ended."""

    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None


ANY_TIME = Schedule()


# Asked of every task at every decision: Python 3.11 takes longer to look up an enum's member than to compare it.
_PENDING, _IN_PROGRESS, _REVIEW = TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.REVIEW
_ADMISSION = NextAction.ADMISSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One ticket that goes through one pipeline in one workspace.

    `seq` counts the decisions, `updated_at` is when the last one was taken. `retry_at` is when the next action is due.
    `feedback` is what the agent's last turn lacks; its next turn repeats it. `requested_changes` is what reviewers ask
    for beyond the ticket; every agent gets it until the work is back at the reviewed stage. `pipeline_digest` is that
    of the pipeline's text as it was accepted; empty in tasks of versions that did not record it. `retry_of` is the
    failed task that this one repeats, `parent` the task whose child it is. `sessions` are the conversations that later
    stages continue, by role.
    """

    id: str
    title: str
    folder: str
    ticket: Ticket
    pipeline: str
    pipeline_digest: str = ""
    source: Source
    schedule: Schedule = ANY_TIME
    policy: TaskPolicy = DEFAULT_POLICY
    timing: Timing
    updated_at: datetime
    seq: int = 0
    status: TaskStatus = TaskStatus.PENDING
    block_reason: str | None = None
    stage: str = ""
    stages: Mapping[str, StageRecord] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    parent: str | None = None
    children: tuple[Child, ...] = ()
    next_action: NextAction = NextAction.ADMISSION
    retry_at: datetime | None = None
    feedback: tuple[str, ...] = ()
    requested_changes: tuple[str, ...] = ()
    run: Run | None = None
    agent: Agent = NO_AGENT
    sessions: Mapping[str, KeptSession] = field(default_factory=dict)
    evaluation: Evaluation = NOT_EVALUATED
    failures: FailureLog = field(default_factory=FailureLog)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    spending: TaskSpending = NO_SPENDING
    publication: Publication = NOT_PUBLISHED
    requests: tuple[UserRequest, ...] = ()
    notices: tuple[Notice, ...] = ()
    retry_of: str | None = None

    def with_turn(self, turn: TurnProgress) -> "Task":
        """Return the task with its agent at this point of its turn."""
        return replace(self, agent=replace(self.agent, turn=turn))

    def with_setbacks(self, setbacks: Setbacks) -> "Task":
        """Return the task with these setbacks of its agent."""
        return replace(self, agent=replace(self.agent, setbacks=setbacks))

    def fill(self, name: str) -> str:
        """Return a file's name as a pipeline declares it with {ticket}, {parent} and {key} replaced: the key of the
        task's ticket, of its parent's ticket, and the task's own among its parent's children.
        """
        if "{" not in name:
            return name
        above, _, own = self.ticket.key.rpartition(".") if self.parent else ("", "", "")
        return name.replace("{ticket}", self.ticket.key).replace("{parent}", above).replace("{key}", own)

    def display_path(self, name: str = "") -> str:
        """Return the path of a file of the task for agents and people to read; the core opens no files."""
        return f"{self.folder}/{name}" if name else self.folder

    @property
    def cycle(self) -> int:
        """Return the number of the evaluation, counted from one in each round of review."""
        budget = self.budgets.get("eval_cycles")
        return budget.used + 1 if budget else 1

    @property
    def is_active(self) -> bool:
        """Whether the task is in progress or under review."""
        return self.status is _IN_PROGRESS or self.status is _REVIEW

    @property
    def is_paused(self) -> bool:
        """Whether the task's processes are to be frozen, for whatever reason."""
        return self.agent.status in PAUSED

    @property
    def waits_for_merge(self) -> bool:
        """Whether the task waits for its pull request, and not for a review of one of its stages."""
        other = (Subject.STAGE, Subject.PUBLISH, Subject.RELEASE)
        here = any(request.draft.subject in other for request in self.pending_requests)
        return self.status is TaskStatus.REVIEW and self.publication.number is not None and not here

    @property
    def waits_for_children(self) -> bool:
        """Whether the task waits until its children have ended."""
        return self.next_action is NextAction.CHILDREN

    @property
    def has_open_children(self) -> bool:
        """Whether a child of the task has not ended, as far as it knows; a planned one may be a task already."""
        return any(child.status.is_open for child in self.children)

    @property
    def is_over(self) -> bool:
        """Whether the task has ended and none of its processes is left; its parent is told then."""
        return self.status.is_final and self.run is None

    def awaits(self, child: str) -> bool:
        """Return whether the task has a child of this id that has not ended, as far as it knows."""
        return any(one.task == child and one.status.is_open for one in self.children)

    @property
    def waits_for_service(self) -> bool:
        """Whether the task is paused until the model is available again."""
        return self.is_paused and self.agent.blocked_by in (PauseReason.RATE_LIMIT, PauseReason.SERVICE)

    @property
    def waits_for_word(self) -> bool:
        """Whether the task reached a usage limit and only a person can resume it."""
        limited = self.is_paused and self.agent.blocked_by is PauseReason.RATE_LIMIT
        return limited and self.retry_at is None and self.agent.setbacks.limit_waits > 0

    @property
    def holds_slot(self) -> bool:
        """Whether the task takes one of the `max_agents` slots; a paused one does not."""
        return self.status is _IN_PROGRESS and not self.is_paused

    @property
    def wants_slot(self) -> bool:
        """Whether the task would start or resume if a slot were free."""
        if self.status is _PENDING:
            return self.next_action is _ADMISSION and not self.is_paused
        return self.status is _IN_PROGRESS and self.is_paused and self.agent.blocked_by is None

    @property
    def pending_requests(self) -> tuple[UserRequest, ...]:
        """Return the unanswered requests."""
        return pending(self.requests)

    @property
    def current_phase(self) -> int | None:
        """Return the number of the present phase, or of the last one; None in a pipeline without phases."""
        return current_phase(self.stages, self.stage)

    @property
    def total_phases(self) -> int | None:
        """Return how many phases the pipeline has; None if it has none."""
        return total_phases(self.stages)

    @property
    def progress(self) -> int:
        """Return the share of completed phases, or else of stages and steps, from 0 to 100 percent.

        Each phase counts the same, and within it each of its stages.
        """
        if self.status is TaskStatus.COMPLETED:
            return 100
        if not self.stages:
            return 0
        if phases := self.total_phases:
            shares = sum(phase_progress(self.stages, phase) for phase in range(1, phases + 1))
            return min(99, int(100 * shares / phases))
        done = float(sum(record.status is StageStatus.COMPLETED for record in self.stages.values()))
        record = self.stages.get(self.stage)
        if self.steps and record and record.status is StageStatus.IN_PROGRESS and self.agent.turn.step:
            done += sum(step.status is StepStatus.COMPLETED for step in self.steps) / len(self.steps)
        return min(99, int(100 * done / len(self.stages)))
