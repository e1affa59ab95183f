"""The agent of a task: what it is meant to do, its session, its present turn, what it has used, and its processes."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class AgentStatus(StrEnum):
    """What a task's agent is meant to do."""

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
"""The statuses in which an agent's processes are to be frozen."""


class PauseReason(StrEnum):
    """Why an agent that could run is paused.

    SERVICE means that the model is overloaded or cannot be reached, WINDOW that the task's run windows are closed.
    """

    CHILDREN = "children"
    DEPENDENCY = "dependency"
    QUESTION = "question"
    REVIEW = "review"
    RATE_LIMIT = "rate_limit"
    SERVICE = "service"
    BUDGET = "budget"
    WINDOW = "window"
    USER = "user"
    PRESSURE = "pressure"


class ProcessState(StrEnum):
    """The processes of a run as last seen; a PARKING run is being ended and is resumed later from its session."""

    STARTING = "starting"
    RUNNING = "running"
    FROZEN = "frozen"
    UNFREEZABLE = "unfreezable"
    PARKING = "parking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A process tree under a holder, of an agent or a check; a frozen one is ended at `park_at`.

    `holder` identifies the holder's process from the run's start on, so that it is found whatever the folder says.
    """

    folder: str
    process: ProcessState = ProcessState.STARTING
    holder: str = ""
    park_at: datetime | None = None

    @property
    def is_of_agent(self) -> bool:
        """Whether the run is that of an agent."""
        return self.folder.startswith("agents/")


class SessionOrigin(StrEnum):
    """How the conversation of an attempt began."""

    NEW = "new"
    RESUMED = "resumed"
    """It is the conversation of an earlier attempt."""
    CONTINUED = "continued"
    """It is the conversation in which the role last worked, before another role did."""
    RESTARTED = "restarted"
    """It replaces the conversation of an earlier attempt, which is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The CLI's conversation; `is_known` once the CLI has named it, so that it can be resumed."""

    id: str | None = None
    is_known: bool = False
    origin: SessionOrigin = SessionOrigin.NEW

    @property
    def is_resumed(self) -> bool:
        """Whether it is the conversation of an earlier attempt."""
        return self.origin in (SessionOrigin.RESUMED, SessionOrigin.CONTINUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """A conversation that a later stage continues, and what it has used by the CLI's own count."""

    id: str
    tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnProgress:
    """The present turn; the next turn starts from a whole new one, and `number` counts them within the attempt.

    `deadline` is set while the turn runs, `active_since` while its processes are not frozen. `step` is the step of the
    plan that it works on. `tokens` is what it has used so far, `usd` what that may have cost. `open_tools` counts the
    running tools, `tool` is the one that has run for longest, since `tool_since`. `timed_out` names the commands that
    ran out of time, `retry_until` is when the CLI repeats a failed call. `was_frozen_in_tool` says that the processes
    were frozen while a tool was running.
    """

    number: int = 0
    deadline: datetime | None = None
    active_since: datetime | None = None
    step: int | None = None
    tool_uses: int = 0
    tokens: int = 0
    usd: float = 0.0
    open_tools: int = 0
    tool: str = ""
    tool_since: datetime | None = None
    timed_out: tuple[str, ...] = ()
    retry_until: datetime | None = None
    was_frozen_in_tool: bool = False


FIRST_TURN = TurnProgress()
"""Before the first turn of an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUsage:
    """What the task's agents have used so far, and how much of it before the present session.

    The CLI's totals are cumulative over a session, so they are added to what earlier sessions had used.
    """

    tokens: int = 0
    cost_usd: float = 0.0
    tokens_before_session: int = 0
    cost_before_session: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setbacks:
    """What went wrong since the agent's last successful turn.

    `limit_waits` counts the turns in a row that ended because the model was not available, `limit_window` is the usage
    window of the newest of them. `nudges` counts how often the agent was found stalled, `losses` how often its process
    or a check was lost with its holder or the machine. `was_corrected` says that the agent was already told in this
    attempt that a block of its output is malformed.
    """

    limit_waits: int = 0
    limit_window: str | None = None
    nudges: int = 0
    losses: int = 0
    was_corrected: bool = False


NO_SESSION, NOTHING_USED, NO_SETBACKS = Session(), AgentUsage(), Setbacks()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The present agent of a task; its attempt never repeats within the task.

    `read_offset` counts the bytes of its output that were read, `last_update` is when it was last heard of, and
    `last_saved` when the last checkpoint was taken.
    """

    status: AgentStatus = AgentStatus.IDLE
    blocked_by: PauseReason | None = None
    role: str | None = None
    attempt: int = 0
    pid: int | None = None
    session: Session = NO_SESSION
    turn: TurnProgress = FIRST_TURN
    usage: AgentUsage = NOTHING_USED
    setbacks: Setbacks = NO_SETBACKS
    read_offset: int = 0
    last_update: datetime | None = None
    last_saved: datetime | None = None


NO_AGENT = Agent()
"""Before the first attempt."""
