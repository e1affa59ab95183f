"""Quiet hours go by the clock on the wall, also in the two nights of a year in which it is set."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.notices.hours import Hours
from orchestrator.settings.sections.notify import hours_of

BERLIN, SEOUL = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Seoul")
NIGHT = hours_of("22:00-07:00")
MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
CLOCKS = st.times().map(lambda one: one.replace(second=0, microsecond=0, tzinfo=None))
ZONES = st.sampled_from([UTC, BERLIN, SEOUL, ZoneInfo("America/St_Johns"), ZoneInfo("Australia/Lord_Howe")])


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "is_quiet"),
    [
        ("2026-11-23 20:59", False),  # 21:59 in Berlin
        ("2026-11-23 21:00", True),
        ("2026-11-24 05:59", True),
        ("2026-11-24 06:00", False),
        # the night in which the clock is set back has an hour more, and all of it is quiet
        ("2026-10-24 20:00", True),
        ("2026-10-25 05:59", True),
        ("2026-10-25 06:00", False),
        # the night in which it is set ahead has an hour less
        ("2027-03-27 21:00", True),
        ("2027-03-28 04:59", True),
        ("2027-03-28 05:00", False),
    ],
)
def test_hours_over_midnight_go_by_the_clock_on_the_wall(at: str, is_quiet: bool) -> None:
    assert NIGHT.contains(utc(at), BERLIN) is is_quiet


@given(at=MOMENTS, begin=CLOCKS, end=CLOCKS, zone=ZONES)
def test_hours_and_those_from_their_end_to_their_begin_share_no_moment(
    at: datetime, begin: time, end: time, zone: ZoneInfo
) -> None:
    if begin != end:
        night, day = Hours(begin=begin, end=end), Hours(begin=end, end=begin)
        assert night.contains(at, zone) is not day.contains(at, zone)


@given(at=MOMENTS, begin=CLOCKS, end=CLOCKS, zone=ZONES)
def test_hours_end_within_a_day_and_an_hour_or_so(at: datetime, begin: time, end: time, zone: ZoneInfo) -> None:
    ends = Hours(begin=begin, end=end).end_after(at, zone)
    assert timedelta(0) < ends - at <= timedelta(hours=26)


def test_hours_of_some_days_are_those_that_begin_there() -> None:
    friday = hours_of("22:00-06:00", ("fri",))
    assert friday.contains(utc("2026-11-27 23:00"), UTC)
    assert friday.contains(utc("2026-11-28 05:00"), UTC)
    assert not friday.contains(utc("2026-11-27 05:00"), UTC)
    assert not friday.contains(utc("2026-11-28 23:00"), UTC)


@pytest.mark.parametrize("text", ["", "22:00", "25:00-07:00", "7-8", "²2:00-07:00"])
def test_what_are_no_hours_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        hours_of(text)
