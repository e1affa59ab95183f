"""What a verifying agent found: a claim beside what the daemon checks itself, never instead of it."""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson

from orchestrator.formats.codec import from_json

MARKER = "=== VERIFICATION_RESULT ==="
"""The line before the JSON document, where the agent wrote it into its last message."""
MOST_FAILURES, LONGEST_FAILURE = 50, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the work passed; `failures` are what its author has to change."""

    passed: bool
    failures: tuple[str, ...] = ()


VerdictReader = Callable[[str], Verdict]
"""Reads what a verifier left. Raises ValueError, with a text for the verifier, if it is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Criterion:
    id: str
    status: str
    details: str = ""
    suggestion: str = ""
    affectedDocuments: list[str] = field(default_factory=list)  # noqa: N815 - as Claude Code Server spells it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    criteria: list[_Criterion]


def read_verdict(text: str) -> Verdict:
    """Return the verdict of a JSON document `{"criteria": [{"id", "status", …}]}`, alone or below its marker line.

    `status` is "passed" or "failed". Raises ValueError.
    """
    try:
        report = from_json(_Report, orjson.loads(_document(text)))
    except ValueError as error:
        raise ValueError(
            'it must be a JSON object like {"criteria": [{"id": "P1_CONS_01", "status": "failed", "details": "…", '
            f'"suggestion": "…", "affectedDocuments": []}}]}}: {error!s:.200}'
        ) from error
    if not report.criteria:
        raise ValueError("it judges no criterion; name each one that was examined")
    odd = [one.status for one in report.criteria if one.status not in ("passed", "failed")]
    if odd:
        raise ValueError(f"a criterion is passed or failed, not {odd[0]!r:.80}")
    failed = [one for one in report.criteria if one.status == "failed"]
    return Verdict(passed=not failed, failures=tuple(map(_failure, failed[:MOST_FAILURES])))


def _document(text: str) -> str:
    """Return the JSON object in a text, or in what stands below its last marker; words around it do not count."""
    below = text.rpartition(MARKER)[2]
    return below[below.find("{") : below.rfind("}") + 1]


def _failure(criterion: _Criterion) -> str:
    parts = (criterion.details, criterion.suggestion and f"suggested: {criterion.suggestion}")
    affected = f" ({', '.join(criterion.affectedDocuments[:10])})" if criterion.affectedDocuments else ""
    return f"{criterion.id}{affected}: {'; '.join(filter(None, parts)) or 'failed'}"[:LONGEST_FAILURE]
