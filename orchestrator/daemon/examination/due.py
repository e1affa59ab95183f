"""When the daemon examines itself: each evening at a time, and a while before a run window opens. Pure."""

from datetime import datetime, time, timedelta, tzinfo

_DAY = timedelta(days=1)


def last_due(now: datetime, at: time | None, zone: tzinfo, window: datetime | None) -> datetime | None:
    """Return the last time at or before `now` at which an examination was due; None if there was none lately.

    `at` is the time of day by the clocks of the zone, `window` when the examination before a run window is due.
    """
    found = [window] if window is not None and window <= now else []
    if at is not None:
        today = now.astimezone(zone).date()
        evenings = (datetime.combine(day, at, zone).astimezone(now.tzinfo) for day in (today, today - _DAY))
        found += [evening for evening in evenings if evening <= now]
    return max(found, default=None)
