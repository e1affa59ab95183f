"""The outside requirement that a task came from, and what was looked at before anything began."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_WITH_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")


class TicketType(StrEnum):
    """What kind of work a ticket asks for (seed 000)."""

    FEATURE = "feature"
    BUGFIX = "bugfix"
    CODE_REVIEW = "code_review"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveCheck:
    """What the secret filter said of the ticket (seed 000)."""

    result: str
    redacted_count: int = 0
    scanned_at: datetime | None = None
    allowed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The servers that a run uses, all of them registered, and what they need of the environment that is not there."""

    servers_registered: tuple[str, ...] = ()
    env_unset: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The outside requirement a task came from."""

    key: str
    type: TicketType = TicketType.FEATURE
    source: str = "local"
    sensitive_check: SensitiveCheck | None = None
    preflight: Preflight | None = None


def variables_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The variables that stand in texts as `${NAME}`, each once; one with a default, `${NAME:-…}`, need not be set."""
    return tuple(dict.fromkeys(found["name"] for text in texts for found in _VARIABLE.finditer(text)))


def put_in(text: str, env: Mapping[str, str]) -> str:
    """The text with its variables as `env` has them; one that is not there is its default, or nothing."""
    return _WITH_DEFAULT.sub(lambda found: env.get(found["name"]) or found["otherwise"] or "", text)
