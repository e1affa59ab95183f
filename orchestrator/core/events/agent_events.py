"""What an agent's output means, whoever the agent is: the closed union `AgentEvent`.

A parser turns every line into these and nothing else of a line travels inward. Only `TurnResult` with `Outcome.OK`
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
    MODEL = "model"  # fix the settings
    STARTUP = "startup"  # fix the machine or the settings
    BUDGET = "budget"  # the money for this turn is spent
    TURNS = "turns"  # the model calls for this turn are used up
    OUTPUT = "output"  # cut off at the token limit, or not of the schema
    REFUSED = "refused"  # the model declined
    UNKNOWN = "unknown"


class SessionActivity(StrEnum):
    """What the agent's process says it is doing; `IDLE` is the only word for "really nothing left to do"."""

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
    """Where an account stands in a usage window; only `REJECTED` stops turns."""

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
    """The agent said something; `synthetic` text is the program's, not the model's, and `error` may name its class."""

    text: str
    subagent: bool
    synthetic: bool
    error: str | None


class Thinking(Struct, frozen=True, kw_only=True):
    """The agent thought aloud."""

    text: str


class ToolStarted(Struct, frozen=True, kw_only=True):
    """A tool was called; `summary` is the telling part of its input in one line, at most 200 characters."""

    id: str
    name: str
    summary: str
    subagent: bool


class ToolFinished(Struct, frozen=True, kw_only=True):
    """A tool gave its result; `summary` is its beginning in one line, at most 200 characters.

    A tool that was `timed_out` was ended by the agent's own program: its clock also ran while the agent was frozen.
    """

    id: str
    ok: bool
    summary: str
    timed_out: bool


class ToolDenied(Struct, frozen=True, kw_only=True):
    """A tool was not allowed to run and nobody was asked."""

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
    """A call to the model failed and is tried again by the agent itself; no failure of the turn."""

    attempt: int
    max_retries: int
    delay_ms: int
    status: int | None
    error: str


class Limit(Struct, frozen=True, kw_only=True):
    """News of a usage window; `resets_at` in epoch seconds, absent at times even when the limit is reached.

    `window` is a name out of a set that grows, `utilization` the part used (0 … 1), and `overage` says that the account
    pays for what goes beyond its plan.
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

    A resumed session goes on from its saved totals, which a SIGKILL loses: a fall means a new beginning.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cumulative: bool


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens that one message of a running turn took in and gave so far, caches apart.

    Every line of a message tells it again: keep the last of each id. What it gives is told as it begins and a
    subagent's last words not at all (measured), so the sum stays below what `TurnResult` says in the end.
    """

    message_id: str
    tokens: int


class TurnResult(Struct, frozen=True, kw_only=True):
    """A turn ended; `cost_usd` is cumulative, `error` is set exactly when `outcome` is FAILED.

    `reason` is the agent's own word for the end ("completed", "max_turns", "refusal", …), `text` its last words or
    its complaint.
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
    """A line of a kind this version does not know, or of a known kind in an unknown shape: it is skipped."""

    kind: str


class Noise(Struct, frozen=True, kw_only=True):
    """A line that is no message at all; its first 200 bytes."""

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
