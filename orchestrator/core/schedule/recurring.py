"""Recurring tasks: which of the times at which one was due is submitted now, and which were missed.

A time that is noticed late is missed: the daemon was down, the machine asleep, or its clock was put forward. What was
missed is told, and the newest of it made up for once where that is wanted. A clock that is put back repeats nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

GRACE = timedelta(minutes=5)
"""How late a time may be noticed and still count as kept."""
MOST_AHEAD = timedelta(days=1)
"""How far a mark may lie ahead of the clock; beyond that the clock had run ahead when it was set."""
MOST_TIMES = 1000
"""How many missed times are counted."""


class Overlap(StrEnum):
    """What happens when a task is due while the one before it has not ended: it is refused, or waits for that."""

    REFUSE = "refuse"
    QUEUE = "queue"


class Missed(StrEnum):
    """What happens to times that were missed: they are told, or also made up for by one task."""

    TELL = "tell"
    ONCE = "once"


class RunResult(StrEnum):
    """What became of a time at which a task was due."""

    SUBMITTED = "submitted"
    MISSED = "missed"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimes:
    """What a look at the clock finds: the time to submit a task for, those missed, and until when all are looked at."""

    due: datetime | None
    is_late: bool
    missed: tuple[datetime, ...]
    until: datetime


def is_ahead(mark: datetime, now: datetime) -> bool:
    """Return whether a mark was set by a clock that ran ahead and was put back since."""
    return mark - now > MOST_AHEAD


def due_times(
    handled: datetime, now: datetime, next_after: Callable[[datetime], datetime | None], missed: Missed
) -> DueTimes | None:
    """Return what is due after the time that was handled last; None if nothing is.

    Of several times within the grace only the newest is submitted.
    """
    times: list[datetime] = []
    at = next_after(handled)
    while at is not None and at <= now and len(times) < MOST_TIMES:
        times.append(at)
        at = next_after(at)
    if not times:
        return None
    is_late = now - times[-1] > GRACE
    due = times[-1] if not is_late or missed is Missed.ONCE else None
    left_out = tuple(one for one in times if one != due)
    return DueTimes(due=due, is_late=is_late, missed=left_out, until=now if at is not None and at <= now else times[-1])
