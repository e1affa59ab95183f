"""What came of a simulated week: how tasks ended, what they waited for and how long, and what broke a law."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from orchestrator.core.task.task import Task, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """All waits of a kind; seconds."""

    kind: str
    count: int
    median: float
    longest: float
    open: int
    """How many were not over at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A law that was broken, by which task, and the last that had happened to it."""

    at: datetime
    task: str
    law: str
    text: str
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """What came of it. `hours_a_second` are simulated hours for each real second, `usd` what agents cost."""

    seed: int
    days: float
    tasks: Mapping[str, int]
    waits: tuple[Waits, ...]
    crashes: int
    restarts: int
    decisions: int
    turns: int
    answers: int
    refusals: int
    limits_met: int
    usd: float
    tokens: int
    seconds: float
    hours_a_second: float
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Whether every law held."""
        return not self.violations


class Metrics:
    """Counts what happens."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._since: dict[str, tuple[str, datetime]] = {}
        self._waited: dict[str, list[float]] = {}

    def see(self, task: Task, now: datetime) -> None:
        """Take in how a task stands."""
        kind = waits_for(task)
        before = self._since.get(task.id)
        if before is not None and before[0] == kind:
            return
        if before is not None:
            self._waited.setdefault(before[0], []).append((now - before[1]).total_seconds())
            del self._since[task.id]
        if kind is not None:
            self._since[task.id] = (kind, now)

    def waits(self, now: datetime) -> tuple[Waits, ...]:
        """All waits so far, those that are not over as long as they have lasted; the most frequent kind first."""
        still: dict[str, list[float]] = {}
        for kind, since in self._since.values():
            still.setdefault(kind, []).append((now - since).total_seconds())
        kinds = {*self._waited, *still}
        found = [_waits(kind, self._waited.get(kind, []), still.get(kind, [])) for kind in sorted(kinds)]
        return tuple(sorted(found, key=lambda waits: -waits.count))


def waits_for(task: Task) -> str | None:
    """What a task waits for, in a word; None if it is at work or has ended."""
    if task.status is TaskStatus.BLOCKED:
        return "blocked"
    if task.status in (TaskStatus.PENDING, TaskStatus.DRAFT):
        return "user" if task.is_paused else task.status.value
    if task.status.is_final or not task.is_paused:
        return None
    return task.agent.blocked_by.value if task.agent.blocked_by else "place"


def by_end(tasks: Iterable[Task]) -> Mapping[str, int]:
    """How many tasks stand how, the most frequent status first."""
    return dict(Counter(task.status.value for task in tasks).most_common())


def _waits(kind: str, over: list[float], still: list[float]) -> Waits:
    both = over + still
    return Waits(
        kind=kind,
        count=len(both),
        median=round(median(both), 1),
        longest=round(max(both), 1),
        open=len(still),
    )
