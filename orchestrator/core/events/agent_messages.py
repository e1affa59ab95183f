"""The messages that an agent may write to the daemon in its text: the closed union `AgentMessage`.

They are claims, not facts. A phase that is reported as complete passes no gate, the documents that it names may not
exist, and an error only decides who is asked next.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never


class AgentTool(StrEnum):
    """A tool of the daemon's own that a role may have, to say the same without writing it as text."""

    ASK_USER = "ask_user"
    REQUEST_DEPENDENCY = "request_dependency"
    PHASE_COMPLETE = "phase_complete"
    STEP = "step"
    FAIL = "fail"


class Category(StrEnum):
    """The kind of answer that a question asks for."""

    BUSINESS = "business"
    CLARIFICATION = "clarification"
    CHOICE = "choice"
    CONFIRMATION = "confirmation"


class DependencyType(StrEnum):
    """What is missing; the first two are values that a person gives under a variable's name."""

    API_KEY = "api_key"
    ENV_VARIABLE = "env_variable"
    SERVICE = "service"
    FILE = "file"
    PERMISSION = "permission"
    PACKAGE = "package"


class Recovery(StrEnum):
    """What the agent proposes to do about its error."""

    PAUSE_AND_RETRY = "pause_and_retry"
    CHECKPOINT_AND_FAIL = "checkpoint_and_fail"
    NOTIFY_USER = "notify_user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a person; if there are options, the default is one of them."""

    category: Category
    question: str
    options: tuple[str, ...]
    default: str | None
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyRequest:
    """Something is missing that only a person can provide; `name` is a portable variable name for a value."""

    type: DependencyType
    name: str
    description: str
    required: bool
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseComplete:
    """The agent reports that phase `number` (1 … 999) is done; `documents` are as it wrote them, at most 200."""

    number: int
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComplete:
    """The agent reports that a task without phases is done; both texts may be empty."""

    task: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentError:
    """The agent cannot continue as it should; `details` may be empty."""

    fatal: bool
    recovery: Recovery
    message: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion of a verification; only `passed` and `id` are always given."""

    id: str
    passed: bool
    details: str
    suggestion: str
    affected_documents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a verifying agent: at least one criterion."""

    criteria: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A message that cannot be understood; `reason` is for the agent: what is wrong and what is expected."""

    block: str
    reason: str


AgentMessage: TypeAlias = (
    Question | DependencyRequest | PhaseComplete | TaskComplete | AgentError | Verification | Malformed
)  # fmt: skip


def in_order(messages: Iterable[AgentMessage]) -> tuple[AgentMessage, ...]:
    """Return messages in the order in which they must be handled; within each class their own order is kept.

    A fatal error replaces everything else. Other errors come first, then whatever needs an answer, and claims of
    completion last, even where the agent said them before.
    """
    everything = tuple(messages)
    fatal = next((one for one in everything if isinstance(one, AgentError) and one.fatal), None)
    return (fatal,) if fatal else tuple(sorted(everything, key=_rank))


def _rank(message: AgentMessage) -> int:
    match message:
        case AgentError():
            return 0
        case Question() | DependencyRequest() | Malformed():
            return 1
        case PhaseComplete() | TaskComplete() | Verification():
            return 2
        case _:
            assert_never(message)
