"""When the morning report is due: once for each day, late rather than never, also when the clock is set."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

LOOK_BACK = 8
"""Days: the longest pause between two days of a week on which there is a report."""
LONGEST_SPAN = timedelta(days=8)
"""What one report covers at most."""
USUAL_SPAN = timedelta(hours=24)
LATE = timedelta(minutes=10)
"""How long after its time a report is called late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTimes:
    """A report at this time of these days (Monday 0), by the clock on the wall of a zone."""

    at: time
    days: frozenset[int]
    zone: tzinfo

    def newest_day(self, now: datetime) -> date | None:
        """Return the newest day whose report time has come."""
        today = now.astimezone(self.zone).date()
        days = (today - timedelta(days=back) for back in range(LOOK_BACK))
        return next((day for day in days if day.weekday() in self.days and self.moment(day) <= now), None)

    def moment(self, day: date) -> datetime:
        """Return when the report of a day is due: of a time that the clock shows twice the first, else the next."""
        return datetime.combine(day, self.at, self.zone).astimezone(UTC)

    def next_after(self, now: datetime) -> datetime:
        """Return when the next report is due after a moment."""
        today = now.astimezone(self.zone).date()
        days = [today + timedelta(days=ahead) for ahead in range(LOOK_BACK + 1)]
        return next(self.moment(day) for day in days if day.weekday() in self.days and self.moment(day) > now)


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


def due_report(mark: ReportMark, times: ReportTimes, now: datetime) -> DueReport | None:
    """Return the report that is due, None if there is none."""
    day = times.newest_day(now)
    if day is None or day <= mark.day:
        return None
    since = mark.until if now - LONGEST_SPAN <= mark.until < now else now - USUAL_SPAN
    return DueReport(day=day, since=since, is_late=now - times.moment(day) > LATE)


def valid_mark(mark: ReportMark | None, times: ReportTimes, now: datetime) -> ReportMark:
    """Return the mark to go on from: a new one where there is none, or where it lies ahead because the clock did.

    Its first report is the next one: what happened before anybody asked for reports is not sent late.
    """
    today = now.astimezone(times.zone).date()
    if mark is not None and mark.day <= today + timedelta(days=1):
        return mark
    newest = times.newest_day(now) or today - timedelta(days=1)
    return ReportMark(day=newest, until=min(mark.until, now) if mark else now - USUAL_SPAN)
