"""Schemas of tasks as the API shows them, whole and in lists, and of why one waits or a request was refused."""

from collections.abc import Mapping
from datetime import datetime

from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.children import ChildStatus
from orchestrator.core.task.progress import StageStatus, StepStatus
from orchestrator.core.task.task import NextAction, Priority, TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.ticket import TicketType
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.user_requests import RequestView


class PreflightView(View):
    """The MCP servers that a task's agents use, and the variables that these need and that are not set."""

    servers_registered: tuple[str, ...]
    env_unset: tuple[str, ...]


class TicketView(View):
    """Where a task came from."""

    key: str
    type: TicketType
    source: str
    preflight: PreflightView | None


class AgentView(View):
    """The present agent, or the last one; tokens and cost are the task's so far."""

    status: AgentStatus
    blocked_by: PauseReason | None
    role: str | None
    attempt: int
    pid: int | None
    session_id: str | None
    turn: int
    current_step: int | None
    tokens_used: int
    cost_usd: float
    last_update: datetime | None


class AutoSaveView(View):
    """When the last checkpoint was taken, and how often one is while an agent works, in milliseconds."""

    last_saved: datetime | None
    auto_save_interval: int


class AgentStateView(View):
    """What a task's agent is doing: the phase and the step it works on, and the share of the phase that is done."""

    status: AgentStatus
    role: str | None
    attempt: int
    current_phase: int | None
    current_step: Words | None
    progress: int
    tokens_used: int
    blocked_by: PauseReason | None
    last_update: datetime | None
    checkpoint: AutoSaveView


class RunView(View):
    """The present process tree of a task."""

    folder: str
    process: ProcessState


class StageView(View):
    """The record of one stage so far."""

    status: StageStatus
    started_at: datetime | None
    completed_at: datetime | None
    artifacts: tuple[str, ...]
    visits: int


class StepView(View):
    """A step of the plan and its commits."""

    step_id: int
    description: Words
    status: StepStatus
    commits: tuple[str, ...]


class ChildView(View):
    """A task of its own that does a part of this one's work; `after` has the keys of those it waits for."""

    key: str
    title: Words
    task: str
    after: tuple[str, ...]
    status: ChildStatus
    commit: str | None
    reason: Words


class CheckView(View):
    """A command that judges commits; `timeout` in seconds."""

    name: str
    command: Words
    required: bool
    timeout: float
    source: str


class CheckResultView(View):
    """The result of one check; `log` is a path within the task's folder."""

    verdict: Verdict
    reason: Words
    exit_code: int | None
    seconds: float | None
    log: str | None


class FailureView(View):
    """One entry of the failure log."""

    id: str
    occurred_at: datetime
    state: str
    agent: str | None
    step: str | None
    type: str
    summary: Words
    details: Words
    exit_code: int | None
    log_file: str | None


class FailuresView(View):
    """The newest failures, and how many there were."""

    total: int
    entries: tuple[FailureView, ...]


class BudgetView(View):
    """How often something was tried and may be tried."""

    used: int
    limit: int


class PublicationView(View):
    """What became of the change on its forge and tracker."""

    number: int | None
    pr_url: str | None
    head: str | None
    round: int
    hindrances: tuple[Words, ...]
    version: Words | None
    tag: Words | None
    report_url: str | None
    merged_at: datetime | None
    merge_commit: str | None


class CapsView(View):
    """The most that may be used; null means no cap."""

    usd: float | None
    tokens: int | None
    turns: int | None
    hours: float | None


class SpentView(View):
    """What was used; `hours` are those in which an agent worked."""

    usd: float
    tokens: int
    turns: int
    hours: float


class TaskView(View):
    """One task, whole; `waiting` are its requests that nobody has answered yet, `allowed` what may be done with it.

    `spent` is what the task itself has used, `spent_by_all` what it and its children have: that is what `caps` bound.
    `closing` is the final message, once only a person can move the task.
    """

    id: str
    title: Words
    status: TaskStatus
    block_reason: Words | None
    stage: str
    next_action: NextAction
    progress: int
    current_phase: int | None = None
    total_phases: int | None = None
    ticket: TicketView
    pipeline: str
    priority: Priority
    repo: str
    base_branch: str
    base_commit: str
    branch: str
    worktree: str | None
    head: str | None
    folder: str
    after: tuple[str, ...]
    retry_of: str | None = None
    start_at: datetime | None
    made_by: str | None = None
    retry_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cycle: int
    paused: bool
    allowed: tuple[str, ...]
    requests: tuple[RequestView, ...]
    waiting: tuple[RequestView, ...]
    autonomy: Autonomy
    caps: CapsView
    spent: SpentView
    spent_by_all: SpentView
    agent: AgentView
    run: RunView | None
    stages: Mapping[str, StageView]
    steps: tuple[StepView, ...]
    parent: str | None = None
    children: tuple[ChildView, ...] = ()
    checks: tuple[CheckView, ...]
    results: Mapping[str, CheckResultView]
    feedback: tuple[Words, ...]
    requested_changes: tuple[Words, ...]
    failures: FailuresView
    budgets: Mapping[str, BudgetView]
    publication: PublicationView
    closing: Words | None


class TasksView(View):
    """Several tasks, whole."""

    tasks: tuple[TaskView, ...]


class TaskLine(View):
    """A task's line in a list; `progress` in percent, null where it is not known without reading the task."""

    id: str
    title: Words
    ticket: str
    pipeline: str = ""
    parent: str | None = None
    status: TaskStatus
    paused: bool = False
    blocked_by: PauseReason | None = None
    stage: str
    progress: int | None = None
    priority: Priority | None = None
    repo: str
    created_at: datetime
    updated_at: datetime


class TaskPage(View):
    """Tasks, newest first; `next_cursor` leads to older ones. `unreadable` says which folders cannot be read."""

    tasks: tuple[TaskLine, ...]
    next_cursor: str | None = None
    unreadable: tuple[str, ...] = ()


class ManyView(View):
    """The tasks that a request to all of them changed."""

    tasks: tuple[TaskLine, ...]


class OutcomeView(View):
    """What became of one task of a batch: it is as `task` says, was deleted, or was refused by `problem`.

    `status` is what a request for this task alone would have been answered with.
    """

    name: str
    status: int
    task: TaskLine | None = None
    problem: "ProblemView | None" = None


class BatchView(View):
    """What became of each task of a batch, in the order in which they were named."""

    results: tuple[OutcomeView, ...]
    done: int
    refused: int


class WhyView(View):
    """The facts that keep a task where it is, nearest first, and what would move it."""

    task: str
    status: TaskStatus
    paused: bool = False
    blocked_by: PauseReason | None = None
    stage: str
    facts: tuple[Words, ...]
    next: Words


class ProblemView(View):
    """Why a request was refused (RFC 9457); the last four only where they help. `request` was answered before."""

    type: str
    title: str
    status: int
    detail: str
    task_status: TaskStatus | None = None
    allowed: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    request: RequestView | None = None
