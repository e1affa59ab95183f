"""The failure log: entries with increasing ids, their totals, and patterns that recur.

A pattern is what two summaries share without line numbers, addresses, hashes, timings and quoted text: up to three
leading words joined by underscores and the first path, as in `nil_pointer:consensus/wbft.go`. A pattern is listed once
two failures have it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache

from orchestrator.formats.codec import Json, JsonObject

KEPT = 200
"""The most entries, patterns, and ids of one pattern that are kept; the newest stay, so that the state stays small."""
KEPT_PATTERNS = 1024
"""The number of summaries whose pattern is cached: every new failure is compared with all the others."""
ACCEPTED = "accepted"
"""The action after a failure that was not fixed: the work was accepted as it was, and the risk is reported."""

_ID = re.compile(r"fail-(\d{1,9})")
_UNIQUE = re.compile(r"\b\d{4}-\d\d-\d\d(?:t[\d:.,+z-]*)?|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
"""Dates with or without a time, and UUIDs."""
_EXIT_CODE = re.compile(r"exit code -?\d+: (?=\S)")
"""The prefix of every failed check, which says nothing about the failure."""
_QUOTED = re.compile(r"""(["'`])(?:(?!\1).){0,200}\1""")
_PATH = re.compile(r"[\w.-]*/[\w./-]+|\b[\w-]+\.(?:c|cc|cpp|go|h|java|js|kt|md|py|rb|rs|sh|toml|ts|tsx|yaml|yml)\b")
_LINE = re.compile(r"(?::\d+)+")
_NUMBER = re.compile(r"\b(?:0x[0-9a-f]+|[0-9a-f]{7,}|\d[\d.:,]*(?:ms|s|m|h|%)?)\b")
_WORD = re.compile(r"[a-z][a-z_]+")
_STOP = frozenset({
    "a", "an", "and", "as", "at", "but", "by", "for", "from", "has", "in", "is", "it", "its", "of", "on", "or",
    "the", "to", "error", "failed", "failure", "panic", "was", "with",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """An evaluator's explanation of a failure."""

    root_cause_hypothesis: str
    confidence: str
    suggested_fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One entry of the failure log."""

    id: str
    occurred_at: datetime
    state: str
    agent: str | None
    step: str | None
    attempted: str
    command: str | None
    expected: str
    type: str
    summary: str
    details: str = ""
    exit_code: int | None = None
    log_file: str | None = None
    analysis: Analysis | None = None
    action: str | None = None
    transitioned_to: str | None = None
    retry_count: int = 0
    related_plan_step: str | None = None
    related_design: str | None = None
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What several failures have in common, their number, and the ids of the newest 200 of them."""

    pattern: str
    occurrences: int
    failure_ids: tuple[str, ...]

    def with_failure(self, failure_id: str) -> "Pattern":
        """Return the pattern with one more failure."""
        return replace(self, occurrences=self.occurrences + 1, failure_ids=(*self.failure_ids, failure_id)[-KEPT:])


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLog:
    """The newest failures, and the totals of all of them."""

    entries: tuple[Failure, ...] = ()
    total: int = 0
    by_state: Mapping[str, int] = field(default_factory=dict)
    by_type: Mapping[str, int] = field(default_factory=dict)
    patterns: tuple[Pattern, ...] = ()

    def with_failure(self, failure: Failure) -> "FailureLog":
        """Return the log with one more entry, which gets the next id if it has none; only the newest 200 stay."""
        entry = replace(failure, id=failure.id or f"fail-{self._highest() + 1:03d}")
        return FailureLog(
            entries=(*self.entries, entry)[-KEPT:],
            total=self.total + 1,
            by_state=_counted(self.by_state, entry.state),
            by_type=_counted(self.by_type, entry.type),
            patterns=self._with_pattern_of(entry),
        )

    @property
    def summary(self) -> JsonObject:
        """Return the totals of all failures, as files and state operations show them."""
        patterns: list[Json] = [
            {"pattern": one.pattern, "occurrences": one.occurrences, "failure_ids": [*one.failure_ids]}
            for one in self.patterns
        ]
        return {
            "total_failures": self.total,
            "by_state": {**self.by_state},
            "by_type": {**self.by_type},
            "recurring_patterns": patterns,
        }

    @property
    def accepted(self) -> tuple[Failure, ...]:
        """Return the failures after which the work was accepted as it was."""
        return tuple(entry for entry in self.entries if entry.action == ACCEPTED)

    def _with_pattern_of(self, entry: Failure) -> tuple[Pattern, ...]:
        key = pattern_of(entry.summary)
        if not key:
            return self.patterns
        if any(known.pattern == key for known in self.patterns):
            return tuple(known.with_failure(entry.id) if known.pattern == key else known for known in self.patterns)
        alike = tuple(other.id for other in self.entries if pattern_of(other.summary) == key)
        if not alike:
            return self.patterns
        found = Pattern(pattern=key, occurrences=len(alike) + 1, failure_ids=(*alike, entry.id)[-KEPT:])
        return (*self.patterns, found)[-KEPT:]

    def _highest(self) -> int:
        """Return the highest number that an id has or may have had, also where entries were removed."""
        numbers = [int(found[1]) for entry in self.entries if (found := _ID.fullmatch(entry.id))]
        return max([self.total, *numbers])


@lru_cache(maxsize=KEPT_PATTERNS)
def pattern_of(summary: str) -> str:
    """Return what is left of a summary without everything that changes from run to run."""
    said = summary.lower()[:2000]
    begun = _EXIT_CODE.match(said)
    text = _UNIQUE.sub(" ", _QUOTED.sub(" ", said[begun.end() :] if begun else said))
    path = _PATH.search(text)
    place = _LINE.sub("", path.group()).rstrip(".") if path else ""
    rest = _NUMBER.sub(" ", _PATH.sub(" ", text))
    words = [word for word in _WORD.findall(rest) if word not in _STOP][: 2 if place else 3]
    return ":".join(filter(None, ("_".join(words), place)))


def _counted(counts: Mapping[str, int], key: str) -> Mapping[str, int]:
    return {**counts, key: counts.get(key, 0) + 1}
