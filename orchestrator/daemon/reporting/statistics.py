"""Statistics of the last days: what was completed, what failed, and what it cost, by day and by who caused it.

Days are in UTC, as everywhere in budgets.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.reporting.histories import Histories, Records, TaskRecord
from orchestrator.formats.codec import stamp

MOST_NAMES = 20
"""How many names of each dimension are listed, those that cost most; the others are one."""
OTHERS = "all others"


class Dimension(StrEnum):
    """By what statistics are divided."""

    REPO = "repo"
    PIPELINE = "pipeline"
    ROLE = "role"
    MODEL = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many tasks came into each status, and what was spent."""

    completed: int = 0
    failed: int = 0
    blocked: int = 0
    cancelled: int = 0
    spent: Spending = NOTHING_SPENT

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            completed=self.completed + other.completed,
            failed=self.failed + other.failed,
            blocked=self.blocked + other.blocked,
            cancelled=self.cancelled + other.cancelled,
            spent=self.spent + other.spent,
        )


NOTHING = Tally()
_ONE = {
    TaskStatus.COMPLETED: Tally(completed=1),
    TaskStatus.FAILED: Tally(failed=1),
    TaskStatus.BLOCKED: Tally(blocked=1),
    TaskStatus.CANCELLED: Tally(cancelled=1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """What happened under one name of a dimension: in all, and on each day. Roles and models only spend."""

    name: str
    total: Tally
    by_day: Mapping[str, Tally]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of some days, the last of which is today; `notes` say what is left out."""

    days: tuple[str, ...]
    total: Tally
    by_day: Mapping[str, Tally]
    divisions: Mapping[Dimension, tuple[Division, ...]]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsService:
    """The use case of statistics."""

    histories: Histories
    clock: Callable[[], datetime]

    async def statistics(self, days: int) -> Statistics:
        """Return the statistics of the last `days` days, today included."""
        today = self.clock().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        begin = today - timedelta(days=days - 1)
        names = tuple(f"{begin + timedelta(days=number):%Y-%m-%d}" for number in range(days))
        return await self.histories.compose(stamp(begin), lambda records: compose_statistics(names, records))


def compose_statistics(days: tuple[str, ...], records: Records) -> Statistics:
    """Return the statistics of these days, which follow each other."""
    known = set(days)
    cells: dict[tuple[Dimension, str], dict[str, Tally]] = {}
    by_day = dict.fromkeys(days, NOTHING)

    def count(day: str, tally: Tally, names: Mapping[Dimension, str]) -> None:
        if day not in known:
            return
        by_day[day] += tally
        for dimension, name in names.items():
            cell = cells.setdefault((dimension, name), {})
            cell[day] = cell.get(day, NOTHING) + tally

    for one in records.tasks:
        task = {Dimension.REPO: one.outcome.repo, Dimension.PIPELINE: one.outcome.pipeline}
        for day, tally in _ends(one):
            count(day, tally, task)
        for charge in one.history.charges:
            spender = {Dimension.ROLE: charge.role, Dimension.MODEL: charge.model or "unknown"}
            count(charge.at[:10], Tally(spent=charge.spent), task | spender)
    return Statistics(
        days=days,
        total=sum(by_day.values(), NOTHING),
        by_day=by_day,
        divisions={dimension: _divisions(dimension, cells) for dimension in Dimension},
        notes=tuple(_notes(records)),
    )


def _ends(one: TaskRecord) -> Iterator[tuple[str, Tally]]:
    """Yield on which days a task was completed, failed, blocked or cancelled; each once a day."""
    reached = {(at[:10], status) for at, status in one.history.statuses}
    return ((day, _ONE[status]) for day, status in reached if status in _ONE)


def _divisions(
    dimension: Dimension, cells: Mapping[tuple[Dimension, str], Mapping[str, Tally]]
) -> tuple[Division, ...]:
    found = [
        Division(name=name, total=sum(by_day.values(), NOTHING), by_day=by_day)
        for (one, name), by_day in cells.items()
        if one is dimension
    ]
    found.sort(key=lambda one: (-one.total.spent.usd, -one.total.spent.tokens, -one.total.completed, one.name))
    rest = found[MOST_NAMES:]
    if not rest:
        return tuple(found)
    days: dict[str, Tally] = {}
    for one in rest:
        for day, tally in one.by_day.items():
            days[day] = days.get(day, NOTHING) + tally
    others = Division(name=OTHERS, total=sum(days.values(), NOTHING), by_day=days)
    return (*found[:MOST_NAMES], others)


def _notes(records: Records) -> list[str]:
    """Return what is left out."""
    notes = [f"{records.left_out} tasks that changed longest ago were not read"] if records.left_out else []
    if records.unreadable:
        notes.append(f"the files of {len(records.unreadable)} tasks cannot be read")
    if unread := sum(one.history.unread for one in records.tasks):
        notes.append(f"{unread} decisions cannot be read")
    return notes
