"""Files that ship with the program: in the source tree, or inside the installed wheel."""

from enum import StrEnum
from pathlib import Path

from orchestrator.pipelines.definition_files import read_declared
from orchestrator.redaction.rules import Redactor, parse_rules

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


def bundled_redactor() -> Redactor:
    """Return the redactor with the rules that ship with the program."""
    path = bundled(Kind.CONFIG) / "redaction.toml"
    return Redactor(parse_rules(read_declared(path), str(path)))
