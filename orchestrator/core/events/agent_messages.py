"""What an agent may say to the daemon in its own text: the closed union `AgentMessage`.

All of it is a claim. A phase that is said to be complete opens no gate, documents that are named are only names, and
an error decides no more than who is asked next.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, assert_never


class Category(StrEnum):
    """What kind of answer a question wants."""

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
    """A person is asked; a default is one of the options wherever there are options."""

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
    """The agent thinks that phase `number` (1 … 999) is done; `documents` as it wrote them, at most 200."""

    number: int
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComplete:
    """The agent thinks that a task without phases is done; both texts may be empty."""

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
    """One point of a verification; only `passed` and `id` are sure to be told."""

    id: str
    passed: bool
    details: str
    suggestion: str
    affected_documents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a verifying agent found, at least one criterion."""

    criteria: tuple[Criterion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A message that cannot be understood; `reason` is for the agent: what is wrong and how it must look."""

    block: str
    reason: str


AgentMessage: TypeAlias = (
    Question | DependencyRequest | PhaseComplete | TaskComplete | AgentError | Verification | Malformed
)  # fmt: skip


def in_order(said: Iterable[AgentMessage]) -> tuple[AgentMessage, ...]:
    """Return messages in the order in which they must be handled; within each class their own order is kept.

    A fatal error replaces everything else. Other errors come first, then whatever needs an answer, and claims of
    completion last, even where the agent said them before.
    """
    everything = tuple(said)
    fatal = next((one for one in everything if isinstance(one, AgentError) and one.fatal), None)
    return (fatal,) if fatal else tuple(sorted(everything, key=_rank))


def _rank(said: AgentMessage) -> int:
    match said:
        case AgentError():
            return 0
        case Question() | DependencyRequest() | Malformed():
            return 1
        case PhaseComplete() | TaskComplete() | Verification():
            return 2
        case _:
            assert_never(said)
