"""The shapes of what the API answers and takes, in camelCase; the daemon makes them and the client reads them.

Fields that hold an agent's words are `Words`. They are masked by the function given as context when a view is made, and
no view can be made without one: `seen` is the one way to make them.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationInfo
from pydantic.alias_generators import to_camel

from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.checks import MOST_CHECKS, Verdict
from orchestrator.core.task.progress import StageStatus, StepStatus
from orchestrator.core.task.task import NextAction, Priority, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.core.task.user_requests import RequestKind, RequestStatus, Subject


class View(BaseModel):
    """Something that the API answers."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, from_attributes=True)


V = TypeVar("V", bound=View)


def to_view(kind: type[V], value: object, redact: Callable[[str], str]) -> V:
    """A view of a value of ours, or of a document in camelCase, its agents' words as `redact` leaves them."""
    return kind.model_validate(value, context=redact)


def _masked(text: str, info: ValidationInfo) -> str:
    redact: Callable[[str], str] | None = info.context
    if redact is None:
        raise TypeError("a view with an agent's words is made by `seen`")
    return redact(text)


Words = Annotated[str, AfterValidator(_masked)]


class PreflightView(View):
    """The servers that a task's agents use, and the variables that these need and that are not set."""

    servers_registered: tuple[str, ...]
    env_unset: tuple[str, ...]


class TicketView(View):
    """Where a task came from."""

    key: str
    type: TicketType
    source: str
    preflight: PreflightView | None


class AgentView(View):
    """The agent at work, or the last one; tokens and cost are the task's so far."""

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


class RunView(View):
    """The process tree that a task has now."""

    folder: str
    process: ProcessState


class StageView(View):
    """How one stage went so far."""

    status: StageStatus
    started_at: datetime | None
    completed_at: datetime | None
    artifacts: tuple[str, ...]
    visits: int


class StepView(View):
    """A step of the plan and the commits made for it."""

    step_id: int
    description: Words
    status: StepStatus
    commits: tuple[str, ...]


class CheckView(View):
    """A command that commits are judged by; `timeout` in seconds."""

    name: str
    command: Words
    required: bool
    timeout: float
    source: str


class CheckResultView(View):
    """What one check came to; `log` is a path within the task's folder."""

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
    """How often something was tried and may be."""

    used: int
    limit: int


class PublicationView(View):
    """What became of the change outside."""

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
    """What may be used at most; null is no cap."""

    usd: float | None
    tokens: int | None
    turns: int | None
    hours: float | None


class SpentView(View):
    """What was used; `hours` are those in which an agent was at work."""

    usd: float
    tokens: int
    turns: int
    hours: float


class AskView(View):
    """One thing that a person is asked for, under `<task id>.<number>`.

    `answer` holds nothing of what was provided for a dependency. `digest` is of what is asked: an answer that names it
    is refused if it was given to something else.
    """

    id: str
    task: str
    number: int
    kind: RequestKind
    subject: Subject
    name: Words
    type: str
    text: Words
    options: tuple[Words, ...]
    default: Words | None
    required: bool
    digest: str
    stage: str
    asked_at: datetime
    deadline: datetime | None
    status: RequestStatus
    answer: Words | None
    answered_by: str | None
    answered_at: datetime | None


class TaskView(View):
    """One task, whole; `waiting` are its asks that nobody has answered yet, `allowed` what may be asked of it.

    `closing` sums up in a few lines what became of it, once nothing but a person moves it any more.
    """

    id: str
    title: Words
    status: TaskStatus
    block_reason: Words | None
    stage: str
    owed: NextAction
    progress: int
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
    start_at: datetime | None
    retry_at: datetime | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    failed_at: datetime | None
    cycle: int
    paused: bool
    allowed: tuple[str, ...]
    asks: tuple[AskView, ...]
    waiting: tuple[AskView, ...]
    autonomy: Autonomy
    caps: CapsView
    spent: SpentView
    agent: AgentView
    run: RunView | None
    stages: Mapping[str, StageView]
    steps: tuple[StepView, ...]
    checks: tuple[CheckView, ...]
    results: Mapping[str, CheckResultView]
    feedback: tuple[Words, ...]
    wanted: tuple[Words, ...]
    failures: FailuresView
    budgets: Mapping[str, BudgetView]
    publication: PublicationView
    closing: Words | None


class TaskLine(View):
    """A task's line in a list; `progress` in percent, null where only the task itself would know."""

    id: str
    title: Words
    ticket: str
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
    """Tasks, newest first; `next_cursor` leads to older ones. `unreadable` says which folders hold no readable task."""

    tasks: tuple[TaskLine, ...]
    next_cursor: str | None = None
    unreadable: tuple[str, ...] = ()


class ManyView(View):
    """The tasks that a request to all of them has changed."""

    tasks: tuple[TaskLine, ...]


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("is beyond every calendar in UTC") from None


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("is relative, and to what is not known here; give the whole path")
    _without_surrogates(str(path))
    return path


def _without_surrogates(text: str) -> str:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("is not text; give plain UTF-8")
    return text


Utf8 = Annotated[str, AfterValidator(_without_surrogates)]


class SubmissionBody(View):
    """A ticket, or the name of one on a tracker; `repo` is an absolute path, `checks` maps names to commands.

    Where pipeline, type, priority or autonomy are left out, the ticket decides; on_blocked then goes by the autonomy,
    auto_merge by the settings. `at` has its zone; `again` allows a second task of a ticket that has one at work.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    repo: Annotated[Path, AfterValidator(_absolute)]
    title: Utf8 = ""
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    ticket: Utf8 | None = None
    base: Utf8 | None = None
    priority: Priority | None = None
    after: tuple[Utf8, ...] = ()
    at: Annotated[AwareDatetime, AfterValidator(_in_utc)] | None = None
    checks: Mapping[Utf8, Utf8] = Field(default_factory=dict, max_length=MOST_CHECKS)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    draft: bool = False
    again: bool = False


class WhyView(View):
    """The facts that keep a task where it is, nearest first, and what moves it on."""

    task: str
    status: TaskStatus
    paused: bool = False
    blocked_by: PauseReason | None = None
    stage: str
    facts: tuple[Words, ...]
    next: Words


class ProblemView(View):
    """Why a request was refused (RFC 9457); the last four only where they help. `ask` was answered before."""

    type: str
    title: str
    status: int
    detail: str
    task_status: TaskStatus | None = None
    allowed: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    ask: AskView | None = None
