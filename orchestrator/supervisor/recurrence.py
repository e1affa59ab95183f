"""When a line in the format of crontab is due: minute, hour, day of the month, month, day of the week.

The line is read by the clocks of a time zone. A time that a change to summer time leaves out is an hour later; of one
that comes twice, the first counts, so every time of the line comes once. Times are therefore counted as clocks show
them, and only then made moments: APScheduler, which reads the line, would count an hour that comes twice two times.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from apscheduler.triggers.cron import CronTrigger

from orchestrator.core.schedule.line_shape import MACROS

_RANGES = {"minute": "0 to 59", "hour": "0 to 23", "day": "1 to 31", "month": "1 to 12"}
"""What the fields may be that are read by APScheduler."""
_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NEAR = timedelta(hours=6)
"""How close to a time a change of clocks is looked for; more than they are changed by anywhere."""
_LONGEST_LINE = 200
_PART = re.compile(r"(\*|[a-z]{3}|[0-7])(?:-([a-z]{3}|[0-7]))?(?:/([1-9]))?", re.ASCII)
_MOMENT = timedelta(microseconds=1)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_END = _START + timedelta(days=366 * 9)
"""Until when a line has to come: every day of a year, also 29 February, is before it."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The times of a line of crontab in a zone. A day has to fit either the month's or the week's, if both are set."""

    triggers: tuple[CronTrigger, ...]
    zone: tzinfo

    def next_after(self, at: datetime) -> datetime | None:
        """Return the next time after another one, in UTC; None if there is none."""
        shown = at.astimezone(self.zone).replace(tzinfo=UTC, fold=0)
        direct = self._next(shown + _MOMENT)
        if direct is None:
            return None
        moment = direct.replace(tzinfo=self.zone).astimezone(UTC)
        shift = max(self._shift_near(at), self._shift_near(moment))
        return self._next_near_change(at, shown - shift, shift) if shift else moment

    def _shift_near(self, at: datetime) -> timedelta:
        """Return by how much clocks are changed within some hours."""
        near = (at - _NEAR, at, at + _NEAR)
        offsets = [one.astimezone(self.zone).utcoffset() or timedelta() for one in near]
        return max(offsets) - min(offsets)

    def _next_near_change(self, at: datetime, shown: datetime, shift: timedelta) -> datetime | None:
        """Return the next time where clocks go forward or back, so that the order of times may differ from theirs."""
        found: datetime | None = None
        latest: datetime | None = None
        while (clock := self._next(shown)) is not None and (latest is None or clock <= latest):
            moment = clock.replace(tzinfo=self.zone).astimezone(UTC)
            if moment > at:
                found = moment if found is None else min(found, moment)
                latest = latest or clock + shift
            shown = clock + timedelta(minutes=1)
        return found

    def _next(self, shown: datetime) -> datetime | None:
        """Return the next time of the line that clocks show, from this one on, as if they were those of UTC."""
        times = (trigger.get_next_fire_time(None, shown) for trigger in self.triggers)
        return min((time for time in times if time is not None), default=None)


@lru_cache(1000)
def parse_recurrence(line: str, zone: tzinfo) -> Recurrence:
    """Return when a line is due. Raises ValueError if it is none, or never comes."""
    words = MACROS.get(line.strip().lower(), line).lower().split()
    if len(words) != 5 or len(line) > _LONGEST_LINE:
        raise ValueError(
            f"{line!r:.80} is not five fields: minute, hour, day, month, day of the week; write 0 22 * * 1-5"
        )
    minute, hour, day, month, weekday = words
    week = _weekdays(weekday)
    days = ((day, "*"), ("*", week)) if day != "*" and weekday != "*" else ((day, week),)
    _check_fields(minute=minute, hour=hour, day=day, month=month)
    triggers = tuple(
        CronTrigger(minute=minute, hour=hour, day=one, month=month, day_of_week=other, timezone="UTC")
        for one, other in days
        if _comes(minute, hour, one, month, other)
    )
    if not triggers:
        raise ValueError(f"{line!r} never comes: no month it names has that day; change the day or the month")
    return Recurrence(triggers, zone)


def _comes(minute: str, hour: str, day: str, month: str, weekday: str) -> bool:
    """Return whether a time comes in some years; without that bound every year until 9999 is looked through."""
    bounded = CronTrigger(
        minute=minute, hour=hour, day=day, month=month, day_of_week=weekday, end_date=_END, timezone="UTC"
    )
    return bounded.get_next_fire_time(None, _START) is not None


def _check_fields(**fields: str) -> None:
    """Raise ValueError for a field that is none, with what it may be."""
    for name, field in fields.items():
        try:
            CronTrigger(**{name: field}, timezone="UTC")
        except ValueError:
            said = f"the {name} {field!r} is wrong; write {_RANGES[name]}, or a list or span of them, */2 or *"
            raise ValueError(said) from None


def _weekdays(field: str) -> str:
    """Return the days of the week as APScheduler counts them, from Monday as 0; crontab has 0 and 7 for Sunday."""
    if field == "*":
        return field
    days: set[int] = set()
    for part in field.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"{field!r} is not a day of the week; write 1-5, mon,wed or *")
        start, end, step = found.groups()
        first = 0 if start == "*" else _weekday(start)
        last = 6 if start == "*" else first if end is None and step is None else _weekday(end or "6")
        count = last - first if last >= first else last + 7 - first
        days |= {(first + number) % 7 for number in range(0, count + 1, int(step or 1))}
    return ",".join(str((day - 1) % 7) for day in sorted(days))


def _weekday(word: str) -> int:
    if word in _NAMES:
        return _NAMES.index(word)
    if not word.isdecimal():
        raise ValueError(f"{word!r} is not a day of the week; write one of {', '.join(_NAMES)}")
    return int(word)
