"""The nouns: a task and what hangs on it, as frozen values.

A task keeps three fields of one vocabulary each (architecture.md, "States"): its status, the stage of its pipeline
and the status of its agent. What is outstanding within a stage is the fourth, `owed`: obligations.py turns it into
commands. Everything else is a fact that somebody will want to read; what can be derived is not kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from orchestrator.core.task.budget import NOTHING_SPENT, Spending, total_spending
from orchestrator.core.task.checks import Check, CheckResult
from orchestrator.core.task.failures import FailureLog
from orchestrator.core.task.notice import Notice
from orchestrator.core.task.preflight import Preflight
from orchestrator.core.task.publication import NOT_PUBLISHED, Publication
from orchestrator.core.task.step_checkpoint import StepCheckpoint
from orchestrator.core.task.task_policy import DEFAULT_POLICY, TaskPolicy
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


class AgentStatus(StrEnum):
    """What a task's agent is meant to be doing (seed 003)."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING_DEPENDENCY = "waiting_dependency"
    WAITING_QUESTION = "waiting_question"
    WAITING_REVIEW = "waiting_review"
    COMPLETED = "completed"
    FAILED = "failed"


PAUSED = frozenset(
    {AgentStatus.PAUSED, AgentStatus.WAITING_DEPENDENCY, AgentStatus.WAITING_QUESTION, AgentStatus.WAITING_REVIEW}
)
"""In which an agent's processes are to stand still."""


class PauseReason(StrEnum):
    """Why an agent that could run does not; SERVICE is the model's service, overloaded or out of reach."""

    DEPENDENCY = "dependency"
    QUESTION = "question"
    REVIEW = "review"
    RATE_LIMIT = "rate_limit"
    SERVICE = "service"
    BUDGET = "budget"
    USER = "user"
    PRESSURE = "pressure"


class StageStatus(StrEnum):
    """How far one stage is (seed 000)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class StepStatus(StrEnum):
    """How far one step of the plan is (seed 000)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class Priority(StrEnum):
    """Which of two waiting tasks goes first."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    CRITICAL = "critical"


class TicketType(StrEnum):
    """What kind of work a ticket asks for (seed 000)."""

    FEATURE = "feature"
    BUGFIX = "bugfix"
    CODE_REVIEW = "code_review"
    RELEASE = "release"


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


class ProcessState(StrEnum):
    """What is really there of a run, as last seen; a PARKING one is being ended, to be resumed from its session."""

    STARTING = "starting"
    RUNNING = "running"
    FROZEN = "frozen"
    UNFREEZABLE = "unfreezable"
    PARKING = "parking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A process tree under a holder, of an agent or a check; one that stands still is ended at `park_at`."""

    folder: str
    process: ProcessState = ProcessState.STARTING
    park_at: datetime | None = None

    @property
    def is_of_agent(self) -> bool:
        """Whether it is an agent's."""
        return self.folder.startswith("agents/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent at work: its role, its attempt (which never repeats within a task) and its session and turn.

    `read_offset` counts bytes of its output that were read; `cost_usd` and `tokens_used` are the task's so far. What
    earlier sessions had used is kept apart, for the CLI's totals are cumulative over a session (collected.md §1.2):
    they are differenced, never summed. `waits` counts the turns in a row that ended because the model could not be had,
    `nudges` how often it was found stalled since it last got on. `begun_anew` says that it is in the place of one whose
    conversation is lost.

    Of the present turn: tool calls, tools at work, commands that ran out of time, tokens as far as told, until when the
    CLI is about to try a call again, and whether it was frozen while a tool worked.
    """

    status: AgentStatus = AgentStatus.IDLE
    blocked_by: PauseReason | None = None
    role: str | None = None
    attempt: int = 0
    pid: int | None = None
    session_id: str | None = None
    session_seen: bool = False
    resumed: bool = False
    begun_anew: bool = False
    turn: int = 0
    turn_deadline: datetime | None = None
    current_step: int | None = None
    read_offset: int = 0
    tool_uses: int = 0
    tokens_used: int = 0
    cost_usd: float = 0.0
    turn_tokens: int = 0
    tokens_before: int = 0
    cost_before: float = 0.0
    waits: int = 0
    limit_window: str | None = None
    open_tools: int = 0
    timed_out: tuple[str, ...] = ()
    retry_until: datetime | None = None
    thawed_at_work: bool = False
    corrected: bool = False
    nudges: int = 0
    at_work_since: datetime | None = None
    last_update: datetime | None = None
    last_saved: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveCheck:
    """What the secret filter said of the ticket (seed 000)."""

    result: str
    redacted_count: int = 0
    scanned_at: datetime | None = None
    allowed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The outside requirement a task came from."""

    key: str
    type: TicketType = TicketType.FEATURE
    source: str = "local"
    sensitive_check: SensitiveCheck | None = None
    preflight: Preflight | None = None


class StageFacts(StrEnum):
    """Facts of a task that state.json shows in the stage where they arise."""

    TICKET = "ticket"
    DRAFTS = "drafts"
    STEPS = "steps"
    CHECKS = "checks"
    PUBLICATION = "publication"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """How one stage went so far; `visits` counts the times it was entered, `digest` is of what was last found in it.

    `facts` says what state.json shows in it beside the record itself.
    """

    status: StageStatus = StageStatus.PENDING
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: tuple[str, ...] = ()
    visits: int = 0
    digest: str = ""
    facts: StageFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of the plan and the commits made for it; `digest` is of what the plan says of it."""

    step_id: int
    description: str
    digest: str = ""
    status: StepStatus = StepStatus.PENDING
    commits: tuple[str, ...] = ()
    started_at: datetime | None = None
    completed_at: datetime | None = None
    last_checkpoint: StepCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How often something may still be tried."""

    limit: int
    used: int = 0

    @property
    def left(self) -> int:
        """Tries that remain, never below zero."""
        return max(0, self.limit - self.used)


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
    agent: Agent = Agent()
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
