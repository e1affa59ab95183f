"""A time of day by the clocks of a zone, such as 05:00 in Berlin, and the moments at which clocks there show it.

Each day has one such moment, also where clocks change: a time that a change leaves out is as much later, and of one
that comes twice, the first counts. All moments are in UTC: times in one zone are compared as its clocks show them.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

EVERY_DAY = frozenset(range(7))
_FARTHEST = 9
"""Days that are looked at: two days of the same weekday are 7 apart, and clocks may be a day ahead of UTC or behind."""


def moment_of(day: date, at: time, zone: tzinfo) -> datetime:
    """Return when clocks in a zone show a time on a day."""
    return datetime.combine(day, at.replace(fold=0), zone).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOfDay:
    """A time on some days of the week, at least one, of which Monday is 0."""

    at: time
    zone: tzinfo
    days: frozenset[int] = EVERY_DAY

    def moment(self, day: date) -> datetime:
        """Return when it is this time on a day, whatever day of the week that is."""
        return moment_of(day, self.at, self.zone)

    def newest_day(self, now: datetime) -> date:
        """Return the last of the days whose time has come."""
        today = now.astimezone(self.zone).date()
        days = (today - timedelta(days=back) for back in range(-1, _FARTHEST))
        return next(day for day in days if day.weekday() in self.days and self.moment(day) <= now)

    def last(self, now: datetime) -> datetime:
        """Return the last moment, up to and with `now`, at which it was this time."""
        return self.moment(self.newest_day(now))

    def next(self, now: datetime) -> datetime:
        """Return the first moment after `now` at which it will be this time."""
        today = now.astimezone(self.zone).date()
        days = (today + timedelta(days=ahead) for ahead in range(-1, _FARTHEST))
        return next(moment for day in days if day.weekday() in self.days and (moment := self.moment(day)) > now)
