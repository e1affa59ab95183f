"""The nouns: a task and what hangs on it, as frozen values.

A task keeps three fields of one vocabulary each (architecture.md, "States"): its status, the stage of its pipeline
and the status of its agent. What is outstanding within a stage is the fourth, `owed`: obligations.py turns it into
commands. Everything else is a fact that somebody will want to read; what can be derived is not kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from orchestrator.core.task.agent import NO_AGENT, PAUSED, Agent, PauseReason, Run
from orchestrator.core.task.budget import NOTHING_SPENT, Spending, total_spending
from orchestrator.core.task.checks import Check, CheckResult
from orchestrator.core.task.failures import FailureLog
from orchestrator.core.task.notice import Notice
from orchestrator.core.task.progress import Budget, StageRecord, StageStatus, Step, StepStatus
from orchestrator.core.task.publication import NOT_PUBLISHED, Publication
from orchestrator.core.task.task_policy import DEFAULT_POLICY, TaskPolicy
from orchestrator.core.task.ticket import Ticket
from orchestrator.core.task.user_requests import Subject, UserRequest, pending


class TaskStatus(StrEnum):
    """Where a task stands as a whole (seed 003, plus blocked, cancelled and archived)."""

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
        """Whether the task has ended: nothing but archiving moves it any more."""
        return self in _FINAL


_FINAL = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.ARCHIVED})


class Priority(StrEnum):
    """Which of two waiting tasks goes first."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


class NextAction(StrEnum):
    """What is outstanding in a task, and so what the daemon has to see to, again after every restart."""

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
    DELIVERY = "delivery"
    PUBLISH = "publish"
    MERGE = "merge"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a person asked for: one ticket, one pipeline, one workspace, one state.json.

    `feedback` is what its agent left undone and is told of in its next turn; `wanted` what somebody asks for beyond the
    ticket, told to every agent until the work has come to where that was asked.
    """

    id: str
    title: str
    folder: str
    ticket: Ticket
    pipeline: str
    repo: str
    base_branch: str
    base_commit: str
    created_at: datetime
    updated_at: datetime
    branch: str
    worktree: str | None = None
    head: str | None = None
    checks: tuple[Check, ...] = ()
    priority: Priority = Priority.NORMAL
    after: tuple[str, ...] = ()
    start_at: datetime | None = None
    terms: TaskPolicy = DEFAULT_POLICY
    started_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    seq: int = 0
    status: TaskStatus = TaskStatus.PENDING
    block_reason: str | None = None
    stage: str = ""
    stages: Mapping[str, StageRecord] = field(default_factory=dict)
    owed: NextAction = NextAction.ADMISSION
    retry_at: datetime | None = None
    feedback: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    run: Run | None = None
    agent: Agent = NO_AGENT
    steps: tuple[Step, ...] = ()
    results: Mapping[str, CheckResult] = field(default_factory=dict)
    report_path: str | None = None
    failures: FailureLog = field(default_factory=FailureLog)
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    publication: Publication = NOT_PUBLISHED
    asks: tuple[UserRequest, ...] = ()
    notices: tuple[Notice, ...] = ()
    spent: Mapping[str, Spending] = field(default_factory=dict)
    spent_at_limit: float | None = None

    @property
    def cycle(self) -> int:
        """Which evaluation this is or was, or will be before the first, counted from one in each round of review."""
        budget = self.budgets.get("eval_cycles")
        return budget.used + 1 if budget else 1

    @property
    def next_check(self) -> Check | None:
        """The first check that has no result yet."""
        return next((check for check in self.checks if check.name not in self.results), None)

    @property
    def is_active(self) -> bool:
        """Whether it was begun and has not come to a halt; its work may be under review."""
        return self.status in (TaskStatus.IN_PROGRESS, TaskStatus.REVIEW)

    @property
    def is_paused(self) -> bool:
        """Whether the task's processes are to stand still, whoever or whatever is waited for."""
        return self.agent.status in PAUSED

    @property
    def waits_for_merge(self) -> bool:
        """Whether its pull request is under review outside; a stage of a later round may be under review here."""
        here = any(ask.asking.subject in (Subject.STAGE, Subject.RELEASE) for ask in self.pending_asks)
        return self.status is TaskStatus.REVIEW and self.publication.number is not None and not here

    @property
    def waits_for_service(self) -> bool:
        """Whether it stands still until the model can be had again."""
        return self.is_paused and self.agent.blocked_by in (PauseReason.RATE_LIMIT, PauseReason.SERVICE)

    @property
    def waits_for_word(self) -> bool:
        """Whether it met a usage limit, and goes on when a person says so."""
        limited = self.is_paused and self.agent.blocked_by is PauseReason.RATE_LIMIT
        return limited and self.retry_at is None and self.agent.waits > 0

    @property
    def holds_slot(self) -> bool:
        """Whether it takes one of the places of `max_agents`; a paused one does not."""
        return self.status is TaskStatus.IN_PROGRESS and not self.is_paused

    @property
    def wants_slot(self) -> bool:
        """Whether it would start or go on if there were a place."""
        if self.status is TaskStatus.PENDING:
            return self.owed is NextAction.ADMISSION and not self.is_paused
        return self.status is TaskStatus.IN_PROGRESS and self.is_paused and self.agent.blocked_by is None

    @property
    def pending_asks(self) -> tuple[UserRequest, ...]:
        """What a person has still to answer."""
        return pending(self.asks)

    @property
    def total_spent(self) -> Spending:
        """What it has used since it began."""
        return total_spending(self.spent.values())

    def spent_on(self, day: str) -> Spending:
        """What it used on a day, as 2026-11-21 in UTC."""
        return self.spent.get(day, NOTHING_SPENT)

    @property
    def progress(self) -> int:
        """Finished stages, and steps of the stage that has them, as a percentage from 0 to 100."""
        if self.status is TaskStatus.COMPLETED:
            return 100
        if not self.stages:
            return 0
        done = float(sum(record.status is StageStatus.COMPLETED for record in self.stages.values()))
        record = self.stages.get(self.stage)
        if self.steps and record and record.status is StageStatus.IN_PROGRESS and self.agent.current_step:
            done += sum(step.status is StepStatus.COMPLETED for step in self.steps) / len(self.steps)
        return min(99, int(100 * done / len(self.stages)))
