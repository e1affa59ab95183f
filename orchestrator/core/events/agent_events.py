"""The events that an agent's output is parsed into, the same for every agent CLI: the closed union `AgentEvent`.

Nothing else of an output line enters the program. Only `TurnResult` with `Outcome.OK`
says that a turn went well, and it says nothing about the work: gates look for themselves. A process that ends without
a `TurnResult` is lost; that is for those to say who see it end.

Agents write thousands of lines a second, so events are msgspec structures: one is made in a tenth of the time that a
frozen dataclass takes.
"""

from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from orchestrator.formats.codec import Json


class Outcome(StrEnum):
    """How a turn ended."""

    OK = "ok"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class ErrorClass(StrEnum):
    """Why a turn failed, as far as it decides what to do next."""

    USAGE_LIMIT = "usage_limit"  # wait for the reset
    THROTTLED = "throttled"  # back off for minutes
    OVERLOADED = "overloaded"  # back off for minutes
    SERVER = "server"  # back off for minutes; the network counts as the server
    AUTHENTICATION = "authentication"  # a person must log in
    BILLING = "billing"  # a person must pay
    CONTEXT = "context"  # begin a new session
    SESSION = "session"  # the session to resume is gone: begin a new one
    MODEL = "model"  # a person must correct the settings
    STARTUP = "startup"  # a person must correct the machine or the settings
    BUDGET = "budget"  # the money for this turn is spent
    TURNS = "turns"  # the model calls for this turn are used up
    OUTPUT = "output"  # cut off at the token limit, or not of the schema
    REFUSED = "refused"  # the model declined
    UNKNOWN = "unknown"


class SessionActivity(StrEnum):
    """What the agent's process reports that it is doing; only `IDLE` means that nothing is left to do."""

    IDLE = "idle"
    RUNNING = "running"
    REQUIRES_ACTION = "requires_action"


class Delivery(StrEnum):
    """What happened to a turn that was sent with a uuid."""

    QUEUED = "queued"
    STARTED = "started"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    REFUSED = "refused"


class LimitStatus(StrEnum):
    """The account's status in a usage window; only `REJECTED` prevents turns."""

    ALLOWED = "allowed"
    WARNING = "allowed_warning"
    REJECTED = "rejected"


class SessionOpened(Struct, frozen=True, kw_only=True):
    """A turn begins in this session; comes before every turn, not once per process."""

    session_id: str
    model: str
    version: str
    auth_source: str  # "none" means a subscription
    cwd: str
    permission_mode: str


class Text(Struct, frozen=True, kw_only=True):
    """Text of the agent; `synthetic` text comes from the CLI, not from the model, and `error` may name its class."""

    text: str
    subagent: bool
    synthetic: bool
    error: str | None


class Thinking(Struct, frozen=True, kw_only=True):
    """Visible reasoning of the model."""

    text: str


class ToolStarted(Struct, frozen=True, kw_only=True):
    """A tool was called; `summary` is the relevant part of its input in one line, at most 200 characters."""

    id: str
    name: str
    summary: str
    subagent: bool


class ToolFinished(Struct, frozen=True, kw_only=True):
    """A tool returned its result; `summary` is its beginning in one line, at most 200 characters.

    A tool that `timed_out` was ended by the agent's CLI, whose clock also runs while the agent is frozen.
    """

    id: str
    ok: bool
    summary: str
    timed_out: bool


class ToolDenied(Struct, frozen=True, kw_only=True):
    """A tool was not allowed to run, and no person was asked."""

    id: str
    name: str
    reason: str


class Asked(Struct, frozen=True, kw_only=True):
    """The agent waits for an answer under `request_id`; `input` is whole because an answer may have to repeat it."""

    request_id: str
    subtype: str
    tool: str | None
    input: Json


class AskWithdrawn(Struct, frozen=True, kw_only=True):
    """The agent no longer waits for that answer."""

    request_id: str


class Answered(Struct, frozen=True, kw_only=True):
    """The agent answered a request of ours, such as an interrupt."""

    request_id: str
    ok: bool
    error: str | None


class Retry(Struct, frozen=True, kw_only=True):
    """A call to the model failed and the CLI repeats it; the turn has not failed."""

    attempt: int
    max_retries: int
    delay_ms: int
    status: int | None
    error: str


class Limit(Struct, frozen=True, kw_only=True):
    """A report about a usage window; `resets_at` is in epoch seconds and may be missing even at the limit.

    `window` is its name (new ones may appear), `utilization` the used share (0 … 1), and `overage` says that the
    account pays for usage beyond its plan.
    """

    status: LimitStatus
    window: str | None
    resets_at: int | None
    utilization: float | None
    overage: bool


class Delivered(Struct, frozen=True, kw_only=True):
    """What happened to the turn that was sent with this uuid."""

    uuid: str
    state: Delivery


class SessionState(Struct, frozen=True, kw_only=True):
    """The agent's process changed what it is doing."""

    state: SessionActivity


class Progress(Struct, frozen=True, kw_only=True):
    """The process is active; nothing more is known."""


class TurnUsage(Struct, frozen=True, kw_only=True):
    """Tokens; `cumulative` ones count since the process began and hold subagents too: take the latest, never a sum.

    A resumed session continues from its saved totals, which a SIGKILL loses; so lower totals mean that counting began
    at zero again.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cumulative: bool


class TokenUsage(Struct, frozen=True, kw_only=True):
    """What one message of a running turn used so far.

    Every line of a message repeats this: keep the last of each id. Output tokens are reported when a message begins,
    and those of a subagent's last message never (measured). So the sum stays below what `TurnResult` says in the end.
    `hour_cache_tokens` are those of `cache_write_tokens` that are kept for an hour.
    """

    message_id: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    hour_cache_tokens: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of input and output, without caches."""
        return self.input_tokens + self.output_tokens


class TurnResult(Struct, frozen=True, kw_only=True):
    """A turn ended; `cost_usd` is cumulative, `error` is set exactly when `outcome` is FAILED.

    `reason` is the CLI's word for the end ("completed", "max_turns", "refusal", …), `text` the last text or the
    error message.
    """

    outcome: Outcome
    reason: str
    error: ErrorClass | None
    text: str
    http_status: int | None
    cost_usd: float
    usage: TurnUsage
    num_turns: int
    structured_output: Json
    session_id: str


class Unknown(Struct, frozen=True, kw_only=True):
    """A line of an unknown kind, or of a known kind in an unknown form; it is skipped."""

    kind: str


class Noise(Struct, frozen=True, kw_only=True):
    """A line that is not a message; its first 200 bytes."""

    excerpt: str


AgentEvent: TypeAlias = (
    SessionOpened
    | Text
    | Thinking
    | ToolStarted
    | ToolFinished
    | ToolDenied
    | Asked
    | AskWithdrawn
    | Answered
    | Retry
    | Limit
    | Delivered
    | SessionState
    | Progress
    | TokenUsage
    | TurnResult
    | Unknown
    | Noise
)
