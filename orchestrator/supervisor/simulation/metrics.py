"""Results of a simulation: how tasks ended, what they waited for and how long, and which invariants were violated."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from orchestrator.core.task.task import Task, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatistics:
    """All waits of one kind; times in seconds."""

    kind: str
    count: int
    median: float
    longest: float
    open: int
    """How many were not over at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An invariant that was violated, the task that violated it, and the last decisions about that task."""

    at: datetime
    task: str
    invariant: str
    text: str
    history: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The results. `hours_a_second` are simulated hours per real second, `usd` is what the agents cost, `scheduled`
    counts the times of schedules by what became of them.
    """

    seed: int
    days: float
    tasks: Mapping[str, int]
    waits: tuple[WaitStatistics, ...]
    steps: int
    crashes: int
    restarts: int
    decisions: int
    turns: int
    answers: int
    refusals: int
    limits_met: int
    scheduled: Mapping[str, int]
    usd: float
    tokens: int
    seconds: float
    hours_a_second: float
    violations: tuple[Violation, ...]

    @property
    def ok(self) -> bool:
        """Whether every invariant held."""
        return not self.violations


class Metrics:
    """Counters of a simulation, and the waiting times of its tasks."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._since: dict[str, tuple[str, datetime]] = {}
        self._finished: dict[str, list[float]] = {}

    def record(self, task: Task, now: datetime) -> None:
        """Record what a task waits for from now on."""
        kind = wait_kind(task)
        before = self._since.get(task.id)
        if before is not None and before[0] == kind:
            return
        if before is not None:
            self._finished.setdefault(before[0], []).append((now - before[1]).total_seconds())
            del self._since[task.id]
        if kind is not None:
            self._since[task.id] = (kind, now)

    def waits(self, now: datetime) -> tuple[WaitStatistics, ...]:
        """Return statistics of all waits so far, the most frequent kind first; open waits count up to now."""
        unfinished: dict[str, list[float]] = {}
        for kind, since in self._since.values():
            unfinished.setdefault(kind, []).append((now - since).total_seconds())
        kinds = {*self._finished, *unfinished}
        found = [_statistics(kind, self._finished.get(kind, []), unfinished.get(kind, [])) for kind in sorted(kinds)]
        return tuple(sorted(found, key=lambda waits: -waits.count))


def wait_kind(task: Task) -> str | None:
    """Return in one word what a task waits for; None if it is active or has ended."""
    if task.status is TaskStatus.BLOCKED:
        return "blocked"
    if task.status in (TaskStatus.PENDING, TaskStatus.DRAFT):
        return "user" if task.is_paused else task.status.value
    if task.status.is_final or not task.is_paused:
        return None
    return task.agent.blocked_by.value if task.agent.blocked_by else "place"


def count_by_status(tasks: Iterable[Task]) -> Mapping[str, int]:
    """Return how many tasks have each status, the most frequent status first."""
    return dict(Counter(task.status.value for task in tasks).most_common())


def _statistics(kind: str, finished: list[float], unfinished: list[float]) -> WaitStatistics:
    every = finished + unfinished
    return WaitStatistics(
        kind=kind,
        count=len(every),
        median=round(median(every), 1),
        longest=round(max(every), 1),
        open=len(unfinished),
    )
