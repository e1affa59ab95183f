"""Run windows: the hours in which tasks may run, by the clocks of a time zone.

A window opens on some days of the week and closes on the same day, or on the next one if it closes at or before the
hour at which it opens. Its hours are those that clocks show, so a night in which they change is an hour longer or
shorter. An hour that a change leaves out counts as much later, of one that comes twice the first is meant.

A task obeys the windows that name it most precisely: its repository and its pipeline, else one of them, else none. It
may run while one of them is open, and at any time if there is none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache

from orchestrator.core.schedule.time_of_day import moment_of
from orchestrator.core.task.task import Task

LOOK_BACK, LOOK_AHEAD = timedelta(days=9), timedelta(days=16)
"""How far openings are looked for: the last closing of a window with one day is within a week, and so is the next
opening, unless clocks leave its hours out.
"""
SOON = timedelta(hours=18)
"""How far off a time may be that is told without its day."""
_DAY = timedelta(days=1)
_COPY = re.compile(r"/sources/([^/]+)-[0-9a-f]{12}$")
"""The daemon's copy of a repository that is given by its address: a name and a hash of the address."""


class AtEdge(StrEnum):
    """What happens to running agents when a window closes: they are frozen, or end their turn first."""

    FREEZE = "freeze"
    END_TURN = "end_turn"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindow:
    """Hours in which tasks may run; it opens on `days`, of which Monday is 0.

    It is meant for the tasks of `repos`, paths or names of folders with `*` for any characters, and of `pipelines`;
    each for all tasks if it is empty.
    """

    name: str
    days: frozenset[int]
    opens: time
    closes: time
    zone: tzinfo
    at_edge: AtEdge = AtEdge.FREEZE
    repos: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()

    @property
    def precision(self) -> int:
        """How precisely it names tasks."""
        return bool(self.repos) + bool(self.pipelines)

    def is_meant_for(self, repo: str, pipeline: str) -> bool:
        """Return whether it is meant for the tasks of a pipeline in a repository."""
        path = repo.rstrip("/")
        copy = _COPY.search(path)
        names = (path.rpartition("/")[2], *(copy.groups() if copy else ()))
        here = any(fnmatchcase(name, one) for one in self.repos for name in ((repo,) if "/" in one else names))
        return (here or not self.repos) and (pipeline in self.pipelines or not self.pipelines)

    def opening(self, day: date) -> "Opening | None":
        """Return when it is open from a day on; None if it does not open on that day of the week."""
        if day.weekday() not in self.days:
            return None
        last = day if self.opens < self.closes else day + _DAY
        start, end = moment_of(day, self.opens, self.zone), moment_of(last, self.closes, self.zone)
        return Opening(start=start, end=end, opened_by=self, closed_by=self) if start < end else None


RunWindows = tuple[RunWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A time, in UTC, from which and until which tasks may run, and the windows that open and close it."""

    start: datetime
    end: datetime
    opened_by: RunWindow
    closed_by: RunWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """That a task may not run now, because every window of its own is closed.

    `since` is None if none was open lately, `until` if none opens soon.
    """

    window: RunWindow
    since: datetime | None
    until: datetime | None
    at_edge: AtEdge

    @property
    def reason(self) -> str:
        """Why the task does not run, for people."""
        if self.until is None:
            return f"its run window {self.window.name} is closed"
        at = self.until.astimezone(self.window.zone)
        return f"its run window {self.window.name} is closed until {at:%a %Y-%m-%d %H:%M} {self.window.zone}"

    def opens_in(self, now: datetime) -> str:
        """Return when it opens, by its own clocks and as seen from now, for people."""
        if self.until is None:
            return f"its run window {self.window.name} opens on no day of the next two weeks"
        at = self.until.astimezone(self.window.zone)
        when = f"{at:%H:%M}" if self.until - now < SOON else f"{at:%a %Y-%m-%d %H:%M}"
        return f"its run window {self.window.name} opens at {when} {self.window.zone}, {span_to(self.until, now)}"


def windows_for(windows: RunWindows, repo: str, pipeline: str) -> RunWindows:
    """Return the windows that the tasks of a pipeline in a repository obey: those that name them most precisely."""
    meant = tuple(window for window in windows if window.is_meant_for(repo, pipeline))
    most = max((window.precision for window in meant), default=0)
    return tuple(window for window in meant if window.precision == most)


def closed_for(windows: RunWindows, task: Task, now: datetime) -> Closed | None:
    """Return that a task may not run now; None if it may.

    A task that a person let run while its windows were closed may go on until they close the next time.
    """
    if not windows:
        return None
    repo = task.source.plain_folder or task.source.repo
    found = _closed(windows, repo, task.pipeline, now)
    let_at = task.schedule.let_run_at
    if found is None or let_at is None or (found.since is not None and let_at < found.since):
        return found
    return None


@lru_cache(1000)
def _closed(windows: RunWindows, repo: str, pipeline: str, now: datetime) -> Closed | None:
    own = windows_for(windows, repo, pipeline)
    if not own:
        return None
    openings = openings_near(own, now.astimezone(UTC).date())
    if any(one.start <= now < one.end for one in openings):
        return None
    last = max((one for one in openings if one.end <= now), key=lambda one: one.end, default=None)
    following = next((one for one in openings if one.start > now), None)
    return Closed(
        window=following.opened_by if following else own[0],
        since=last.end if last else None,
        until=following.start if following else None,
        at_edge=last.closed_by.at_edge if last else AtEdge.FREEZE,
    )


@lru_cache(200)
def openings_near(windows: RunWindows, day: date) -> tuple[Opening, ...]:
    """Return when at least one of the windows is open around a day, in order; what overlaps or touches is one."""
    merged: list[Opening] = []
    for one in sorted(_openings(windows, day), key=lambda one: one.start):
        last = merged[-1] if merged else None
        if last is None or one.start > last.end:
            merged.append(one)
        elif one.end > last.end:
            merged[-1] = Opening(start=last.start, end=one.end, opened_by=last.opened_by, closed_by=one.closed_by)
    return tuple(merged)


def next_edge(windows: RunWindows, now: datetime) -> datetime | None:
    """Return when the next of the windows opens or closes; None if none does soon."""
    day = now.astimezone(UTC).date()
    edges = (edge for one in _openings(windows, day) for edge in (one.start, one.end) if edge > now)
    return min(edges, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWindowState:
    """Whether a window is open, and until when it stays as it is; `zone` is the one by whose clocks it opens."""

    name: str
    zone: str
    is_open: bool
    until: datetime | None


def states_of(windows: RunWindows, now: datetime) -> tuple[RunWindowState, ...]:
    """Return how each window stands."""
    found = []
    for window in windows:
        near = openings_near((window,), now.astimezone(UTC).date())
        inside = next((one for one in near if one.start <= now < one.end), None)
        until = inside.end if inside else next((one.start for one in near if one.start > now), None)
        found.append(RunWindowState(name=window.name, zone=str(window.zone), is_open=inside is not None, until=until))
    return tuple(found)


def span_to(at: datetime, now: datetime) -> str:
    """Return how far off a time is: `in 3 h`, `in 2 days`, `in a moment`."""
    minutes = int((at - now).total_seconds() // 60)
    if minutes < 1:
        return "in a moment"
    if minutes < 120:
        return f"in {minutes} min"
    return f"in {round(minutes / 60)} h" if minutes < 60 * 48 else f"in {round(minutes / 1440)} days"


def _openings(windows: RunWindows, day: date) -> Iterator[Opening]:
    for offset in range(-LOOK_BACK.days, LOOK_AHEAD.days + 1):
        for window in windows:
            if found := window.opening(day + timedelta(days=offset)):
                yield found


WEEKDAYS: Mapping[str, int] = {
    name: number for number, name in enumerate(("mon", "tue", "wed", "thu", "fri", "sat", "sun"))
}
