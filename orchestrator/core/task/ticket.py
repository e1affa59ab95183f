"""The ticket that a task came from, and the checks that were made before the task began."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_WITH_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")


class TicketType(StrEnum):
    """What kind of work a ticket asks for."""

    FEATURE = "feature"
    BUGFIX = "bugfix"
    CODE_REVIEW = "code_review"
    RELEASE = "release"


LOCAL = "local"
"""The source of a ticket that is on no tracker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveCheck:
    """The result of the secret filter on the ticket."""

    result: str
    redacted_count: int = 0
    scanned_at: datetime | None = None
    allowed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The MCP servers that the agents use, and the variables that these servers need and that are not set."""

    servers_registered: tuple[str, ...] = ()
    env_unset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The requirement that a task came from."""

    key: str
    type: TicketType = TicketType.FEATURE
    source: str = LOCAL
    sensitive_check: SensitiveCheck | None = None
    preflight: Preflight | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketList:
    """Open tickets of a repository on a tracker: with all of these labels, or that a search for `query` finds."""

    project: str
    labels: tuple[str, ...] = ()
    query: str = ""


def variables_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that texts need, as in `${NAME}`, each once; `${NAME:-…}` has a default and is left out."""
    return tuple(dict.fromkeys(found["name"] for text in texts for found in _VARIABLE.finditer(text)))


def put_in(text: str, env: Mapping[str, str]) -> str:
    """Return the text with its variables replaced by their values in `env`, their default, or nothing."""
    return _WITH_DEFAULT.sub(lambda found: env.get(found["name"]) or found["otherwise"] or "", text)
