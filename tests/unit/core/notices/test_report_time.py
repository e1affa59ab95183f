"""One morning report for each day: over restarts, missed times, and clocks that jump."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.notices.report_time import ReportMark, due_report, valid_mark
from orchestrator.core.schedule.time_of_day import EVERY_DAY, TimeOfDay

BERLIN = ZoneInfo("Europe/Berlin")
TIMES = TimeOfDay(at=time(7, 30), days=EVERY_DAY, zone=BERLIN)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def mark(day: str, until: str) -> ReportMark:
    return ReportMark(day=date.fromisoformat(day), until=utc(until))


def test_a_report_is_due_from_its_time_on_and_tells_of_everything_since_the_last_one() -> None:
    last = mark("2026-11-22", "2026-11-22 06:31")
    assert due_report(last, TIMES, utc("2026-11-23 06:29")) is None
    found = due_report(last, TIMES, utc("2026-11-23 06:30"))
    assert found is not None
    assert (found.day, found.since, found.is_late) == (date(2026, 11, 23), last.until, False)
    assert due_report(mark("2026-11-23", "2026-11-23 06:30"), TIMES, utc("2026-11-23 22:00")) is None


def test_a_daemon_that_was_away_sends_one_late_report_of_all_the_days() -> None:
    last = mark("2026-11-20", "2026-11-20 06:30")
    found = due_report(last, TIMES, utc("2026-11-23 09:00"))
    assert found is not None
    assert (found.day, found.since, found.is_late) == (date(2026, 11, 23), last.until, True)


def test_after_a_long_absence_the_report_tells_of_the_last_day() -> None:
    found = due_report(mark("2026-10-20", "2026-10-20 06:30"), TIMES, utc("2026-11-23 09:00"))
    assert found is not None
    assert found.since == utc("2026-11-22 09:00")


def test_on_other_days_there_is_none() -> None:
    workdays = TimeOfDay(at=time(7, 30), days=frozenset(range(5)), zone=BERLIN)
    friday = mark("2026-11-20", "2026-11-20 06:30")
    assert due_report(friday, workdays, utc("2026-11-22 20:00")) is None
    found = due_report(friday, workdays, utc("2026-11-23 06:30"))
    assert found is not None
    assert found.day == date(2026, 11, 23)
    assert workdays.next(utc("2026-11-20 06:30")) == utc("2026-11-23 06:30")


def test_who_turns_reports_on_gets_the_next_one_and_none_of_the_past() -> None:
    now = utc("2026-11-23 15:00")
    begun = valid_mark(None, TIMES, now)
    assert due_report(begun, TIMES, now) is None
    assert due_report(begun, TIMES, utc("2026-11-24 06:30")) is not None


def test_a_clock_that_was_years_ahead_does_not_silence_reports() -> None:
    ahead = mark("2030-01-01", "2030-01-01 06:30")
    now = utc("2026-11-23 15:00")
    mended = valid_mark(ahead, TIMES, now)
    assert due_report(mended, TIMES, now) is None
    found = due_report(mended, TIMES, utc("2026-11-24 06:30"))
    assert found is not None
    assert found.since == now


@pytest.mark.parametrize(
    ("at", "day", "moment"),
    [
        (time(2, 30), date(2026, 10, 25), "2026-10-25 00:30"),  # the clock shows it twice: the first
        (time(2, 30), date(2027, 3, 28), "2027-03-28 01:30"),  # the clock never shows it: at 03:30
        (time(7, 30), date(2026, 10, 25), "2026-10-25 06:30"),
        (time(7, 30), date(2027, 3, 28), "2027-03-28 05:30"),
    ],
)
def test_the_time_of_a_report_in_the_nights_when_the_clock_is_set(at: time, day: date, moment: str) -> None:
    times = TimeOfDay(at=at, days=EVERY_DAY, zone=BERLIN)
    before = ReportMark(day=day - timedelta(days=1), until=utc(moment) - timedelta(days=1))
    assert due_report(before, times, utc(moment) - timedelta(seconds=1)) is None
    found = due_report(before, times, utc(moment))
    assert found is not None
    assert found.day == day


@given(
    at=st.times().map(lambda one: one.replace(second=0, microsecond=0)),
    days=st.frozensets(st.integers(0, 6), min_size=1),
    steps=st.lists(st.integers(-3000, 4000), min_size=1, max_size=60),
)
def test_no_day_has_two_reports_unless_the_clock_was_a_day_ahead(
    at: time, days: frozenset[int], steps: list[int]
) -> None:
    """Then the mark is given up, and the key of the report keeps it from being told again."""
    times, now, known, told = TimeOfDay(at=at, days=days, zone=BERLIN), utc("2026-10-20 12:00"), None, list[date]()
    latest, was_ahead = now, False
    for step in steps:
        now += timedelta(minutes=step)
        latest, was_ahead = max(latest, now), was_ahead or latest - now > timedelta(days=1)
        known = valid_mark(known, times, now)
        found = due_report(known, times, now)
        if found is not None:
            assert found.since < now
            assert found.day.weekday() in days
            told.append(found.day)
            known = ReportMark(day=found.day, until=now)
    assert was_ahead or len(told) == len(set(told))


def test_a_year_of_looks_each_minute_of_the_report_hour_sends_one_report_each_day() -> None:
    known, told = valid_mark(None, TIMES, utc("2026-06-01 00:00")), list[date]()
    for hour in range(24 * 365):
        now = utc("2026-06-01 00:00") + timedelta(hours=hour, minutes=hour % 60)
        if (found := due_report(known, TIMES, now)) is not None:
            told.append(found.day)
            known = ReportMark(day=found.day, until=now)
    assert len(told) == len(set(told)) == 365
