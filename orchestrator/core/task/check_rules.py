"""What the settings say of checks, for all tasks that are handed in from now on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_CHECKS = 50
"""How many a repository, the settings and a submitter may each name; one command may run many tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """An integration test that the machine offers: a command, what tells whether it can be run, what cleans up.

    Without an answer of the `preflight` it is skipped, or fails if that is `required`; `timeout` is in seconds.
    """

    command: str
    preflight: str = ""
    cleanup: str = ""
    timeout: float = 1200.0
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the settings say of checks: `commands` by name, an empty one switches that check off.

    `changed_coverage` is what tests should reach of the changed lines, in percent, and 0 only tells; whether less fails
    or warns says `coverage_required`. A required check that failed is run `retry_failed` times more. Programs are
    looked for on `path`, or on PATH where that is None.
    """

    timeout: float = 600.0
    commands: Mapping[str, str] = field(default_factory=dict)
    integration: Integration | None = None
    changed_coverage: float = 0.0
    coverage_required: bool = False
    retry_failed: int = 0
    path: str | None = None


DEFAULT_RULES = Rules()
