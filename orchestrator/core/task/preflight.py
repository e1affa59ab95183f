"""What agents of a run need beside the CLI, looked for before anything is begun (seed 001)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_WITH_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The servers that a run uses, all of them registered, and what they need of the environment that is not there."""

    servers_registered: tuple[str, ...] = ()
    env_unset: tuple[str, ...] = ()


def variables_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The variables that stand in texts as `${NAME}`, each once; one with a default, `${NAME:-…}`, need not be set."""
    return tuple(dict.fromkeys(found["name"] for text in texts for found in _VARIABLE.finditer(text)))


def put_in(text: str, env: Mapping[str, str]) -> str:
    """The text with its variables as `env` has them; one that is not there is its default, or nothing."""
    return _WITH_DEFAULT.sub(lambda found: env.get(found["name"]) or found["otherwise"] or "", text)
