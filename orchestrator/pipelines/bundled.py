"""Files that ship with the program: in the source tree, or inside the installed wheel."""

from enum import StrEnum
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_IN_WHEEL = _PACKAGE / "_bundled"


class Kind(StrEnum):
    """The kinds of bundled files; each value is a path in the wheel."""

    AGENTS = "agents"
    CONFIG = "config"
    PIPELINES = "config/pipelines"
    SYSTEMD = "systemd"
    SCRIPTED_AGENT = "demo/scripted_agent.py"


def bundled(kind: Kind) -> Path:
    """Return the folder or file of a kind."""
    if _IN_WHEEL.is_dir():
        return _IN_WHEEL / kind
    tree = _PACKAGE.parent
    return tree / "tests/fakes/scripted_agent.py" if kind is Kind.SCRIPTED_AGENT else tree / kind
