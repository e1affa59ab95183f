"""The daemon's schedules in a simulation: the same times and choices, over crashes, sleep and changes of the clocks.

What a schedule has handled is on disk, as in the daemon: the next daemon process goes on from there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult, due_times
from orchestrator.core.task.task import Task
from orchestrator.supervisor.recurrence import Recurrence, parse_recurrence

MOST_LATE = timedelta(minutes=6)
"""How late a submitted time may be, unless it is made up for: the grace, and some seconds."""


@dataclass(slots=True, kw_only=True)
class SimulatedSchedule:
    """A schedule, what became of its times so far, and the tasks that were submitted for them."""

    name: str
    recurrence: Recurrence
    overlap: Overlap
    missed: Missed
    begun: datetime
    handled: datetime
    results: Counter[RunResult] = field(default_factory=Counter)
    made_for: dict[str, datetime] = field(default_factory=dict)
    late: list[datetime] = field(default_factory=list)

    def due(self, now: datetime, live: Mapping[str, Task]) -> datetime | None:
        """Return the time to submit a task for now, after what was missed or is refused was counted."""
        found = due_times(self.handled, now, self.recurrence.next_after, self.missed)
        if found is None:
            return None
        self.handled = found.until
        self.results[RunResult.MISSED] += len(found.missed)
        if found.due is None:
            return None
        if self.overlap is Overlap.REFUSE and any(name in live for name in self.made_for):
            self.results[RunResult.REFUSED] += 1
            return None
        self.results[RunResult.SUBMITTED] += 1
        if now - found.due > MOST_LATE and self.missed is Missed.TELL:
            self.late.append(found.due)
        return found.due


class SimulatedSchedules:
    """Every schedule of a simulation; `submit` hands a task to the daemon."""

    def __init__(
        self, lines: Iterable[str], zone: tzinfo, start: datetime, submit: Callable[[SimulatedSchedule, datetime], str]
    ) -> None:
        choices = [(overlap, missed) for missed in Missed for overlap in Overlap]
        self.every = [
            SimulatedSchedule(
                name=f"schedule-{number}",
                recurrence=parse_recurrence(line, zone),
                overlap=choices[number % len(choices)][0],
                missed=choices[number % len(choices)][1],
                begun=start,
                handled=start,
            )
            for number, line in enumerate(lines)
        ]
        self._submit = submit

    def look(self, now: datetime, live: Mapping[str, Task]) -> None:
        """Submit what is due now."""
        for schedule in self.every:
            at = schedule.due(now, live)
            if at is not None:
                schedule.made_for[self._submit(schedule, at)] = at

    def next_time(self, now: datetime) -> datetime | None:
        """Return when the next task is due."""
        times = (one.recurrence.next_after(max(one.handled, now)) for one in self.every)
        return min((at for at in times if at is not None), default=None)

    def results(self) -> Mapping[str, int]:
        """Return how many times came to each result."""
        total = sum((one.results for one in self.every), Counter[RunResult]())
        return {result.value: total[result] for result in RunResult if total[result]}

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield each schedule whose times did not come to exactly one result each, and what is wrong with it."""
        for one in self.every:
            times = set(_times(one))
            if sum(one.results.values()) != len(times):
                yield one.name, f"{len(times)} times were due, {dict(one.results)} are on record"
            if not set(one.made_for.values()) <= times or len(set(one.made_for.values())) != len(one.made_for):
                yield one.name, "tasks were submitted twice for a time, or for none"
            for at in one.late:
                yield one.name, f"the time {at} was missed and is made up for, though it is only to be told"


def _times(schedule: SimulatedSchedule) -> Iterator[datetime]:
    """Yield every time of a schedule that was handled."""
    at = schedule.recurrence.next_after(schedule.begun)
    while at is not None and at <= schedule.handled:
        yield at
        at = schedule.recurrence.next_after(at)
