"""When the daemon examines itself: each evening at a time, and a while before a run window opens. Pure."""

from datetime import datetime, time, tzinfo

from orchestrator.core.schedule.time_of_day import TimeOfDay


def last_due(now: datetime, at: time | None, zone: tzinfo, window: datetime | None) -> datetime | None:
    """Return the last time at or before `now` at which an examination was due; None if there was none.

    `at` is the time of day by the clocks of the zone, `window` when the examination before a run window is due.
    """
    evening = TimeOfDay(at=at, zone=zone).last(now) if at is not None else None
    return max((one for one in (evening, window) if one is not None and one <= now), default=None)
