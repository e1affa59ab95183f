"""When the morning report is due: once for each day, late rather than never, also when the clock is set."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from orchestrator.core.schedule.time_of_day import TimeOfDay

LONGEST_SPAN = timedelta(days=8)
"""What one report covers at most."""
USUAL_SPAN = timedelta(hours=24)
LATE = timedelta(minutes=10)
"""How long after its time a report is called late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMark:
    """The day of the newest report, and until when it told what happened."""

    day: date
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DueReport:
    """The report of a day, from `since` until now; `is_late` if its time passed while nobody could send it."""

    day: date
    since: datetime
    is_late: bool


def due_report(mark: ReportMark, times: TimeOfDay, now: datetime) -> DueReport | None:
    """Return the report that is due, None if there is none."""
    day = times.newest_day(now)
    if day <= mark.day:
        return None
    since = mark.until if now - LONGEST_SPAN <= mark.until < now else now - USUAL_SPAN
    return DueReport(day=day, since=since, is_late=now - times.moment(day) > LATE)


def valid_mark(mark: ReportMark | None, times: TimeOfDay, now: datetime) -> ReportMark:
    """Return the mark to go on from: a new one where there is none, or where it lies ahead because the clock did.

    Its first report is the next one: what happened before anybody asked for reports is not sent late.
    """
    today = now.astimezone(times.zone).date()
    if mark is not None and mark.day <= today + timedelta(days=1):
        return mark
    return ReportMark(day=times.newest_day(now), until=min(mark.until, now) if mark else now - USUAL_SPAN)
