"""Hours of the day by the clock on the wall, such as quiet hours: 22:00-07:00, also over midnight.

A zone with summer time repeats an hour of one night and skips one of another. What counts is what the clock on the wall
shows: quiet hours that end at 07:00 end when it shows 07:00, whether the night had seven hours or nine.
"""

from dataclasses import dataclass
from datetime import datetime, time, tzinfo

from orchestrator.core.schedule.time_of_day import EVERY_DAY, TimeOfDay


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """From `begin` until `end`, over midnight if `end` is not later; `days` are those on which they begin, Monday 0."""

    begin: time
    end: time
    days: frozenset[int] = EVERY_DAY

    def contains(self, at: datetime, zone: tzinfo) -> bool:
        """Return whether a moment is within these hours in a zone."""
        local = at.astimezone(zone)
        clock, day = local.time().replace(fold=0), local.weekday()
        if self.begin < self.end:
            return day in self.days and self.begin <= clock < self.end
        return (day in self.days and clock >= self.begin) or ((day - 1) % 7 in self.days and clock < self.end)

    def end_after(self, at: datetime, zone: tzinfo) -> datetime:
        """Return when the clock in a zone next shows `end` after a moment."""
        return TimeOfDay(at=self.end, zone=zone).next(at)
