"""What the next hours bring: when schedules are due, and when run windows are open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from itertools import islice

from orchestrator.core.schedule.run_windows import RunWindows, openings_near
from orchestrator.daemon.schedules.records import TaskSchedule
from orchestrator.settings.sections.windows import zone_of
from orchestrator.supervisor.recurrence import Recurrence, parse_recurrence


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A time at which a schedule is due."""

    at: datetime
    schedule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHours:
    """When one run window is open within the span, as far as it is."""

    window: str
    spans: tuple[tuple[datetime, datetime], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What is due from `now` until `until`; of more than so many runs the first, and `more` says so."""

    now: datetime
    until: datetime
    runs: tuple[DueRun, ...]
    more: bool
    windows: tuple[OpenHours, ...]


def times_ahead(
    schedules: Sequence[TaskSchedule], windows: RunWindows, now: datetime, until: datetime, most: int
) -> Ahead:
    """Return what is due between two times, in order."""
    times = merge(*(_runs(one, now, until) for one in schedules), key=lambda one: (one.at, one.schedule))
    runs = list(islice(times, most + 1))
    hours = tuple(OpenHours(window=one.name, spans=_open((one,), now, until)) for one in windows)
    return Ahead(now=now, until=until, runs=tuple(runs[:most]), more=len(runs) > most, windows=hours)


def next_times(line: str, zone: str, after: datetime, count: int) -> list[datetime]:
    """Return the next times of a line by the clocks of a zone. Raises ValueError if it is none, or never comes."""
    recurrence, times = parse_recurrence(line, zone_of(zone)), list[datetime]()
    while len(times) < count and (following := recurrence.next_after(times[-1] if times else after)) is not None:
        times.append(following.astimezone(recurrence.zone))
    return times


def recurrence_of(schedule: TaskSchedule) -> Recurrence:
    """Return when a schedule is due."""
    return parse_recurrence(schedule.line, zone_of(schedule.zone))


def _runs(schedule: TaskSchedule, now: datetime, until: datetime) -> Iterator[DueRun]:
    recurrence, at = recurrence_of(schedule), max(schedule.handled, now)
    while (following := recurrence.next_after(at)) is not None and following < until:
        yield DueRun(at=(at := following), schedule=schedule.id)


def _open(windows: RunWindows, now: datetime, until: datetime) -> tuple[tuple[datetime, datetime], ...]:
    near = openings_near(windows, now.astimezone(UTC).date())
    return tuple((max(one.start, now), min(one.end, until)) for one in near if one.start < until and one.end > now)
