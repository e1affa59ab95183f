"""The agent of a task: what it is meant to do, its session, its present turn, what it has used, and its processes."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


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


NO_AGENT = Agent()
"""Before the first attempt."""
