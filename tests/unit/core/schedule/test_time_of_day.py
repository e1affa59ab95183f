"""The moments at which clocks show a time of day: one for each day, also where clocks change."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.schedule.time_of_day import TimeOfDay

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana")
"""Among them one that leapt over a day, one that changes by half an hour, and some that change at midnight."""
DAY = timedelta(days=1)

moments = st.datetimes(datetime(2005, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - in UTC
times = st.builds(
    TimeOfDay,
    at=st.times(),
    zone=st.sampled_from(ZONES).map(ZoneInfo),
    days=st.frozensets(st.integers(0, 6), min_size=1),
)


@pytest.mark.parametrize(
    ("at", "now", "last", "following"),
    [
        ("05:00", "2026-07-01 03:00", "2026-07-01 03:00", "2026-07-02 03:00"),
        ("05:00", "2026-07-01 02:59", "2026-06-30 03:00", "2026-07-01 03:00"),
        ("05:00", "2026-10-25 03:30", "2026-10-24 03:00", "2026-10-25 04:00"),  # the night has 25 hours
        ("05:00", "2026-03-29 02:30", "2026-03-28 04:00", "2026-03-29 03:00"),  # the night has 23 hours
        ("02:30", "2026-10-25 01:45", "2026-10-25 00:30", "2026-10-26 01:30"),  # it comes twice: the first counts
        ("02:30", "2026-03-29 01:15", "2026-03-28 01:30", "2026-03-29 01:30"),  # it is left out: an hour later
    ],
)
def test_clocks_that_change_show_each_time_once_a_day(at: str, now: str, last: str, following: str) -> None:
    daily = TimeOfDay(at=time.fromisoformat(at), zone=BERLIN)
    assert (daily.last(utc(now)), daily.next(utc(now))) == (utc(last), utc(following))


@given(daily=times, now=moments)
@example(daily=TimeOfDay(at=time(12), zone=ZoneInfo("Pacific/Apia")), now=datetime(2011, 12, 31, 1, tzinfo=UTC))
def test_now_lies_between_the_last_time_and_the_next_and_nothing_else_does(daily: TimeOfDay, now: datetime) -> None:
    last, following = daily.last(now), daily.next(now)
    assert last <= now < following
    assert following - last <= 8 * DAY
    assert (daily.last(following), daily.next(last)) == (following, following)
    day = (last - 2 * DAY).date()
    while day <= (following + 2 * DAY).date():
        assert day.weekday() not in daily.days or not last < daily.moment(day) < following
        day += DAY


@given(daily=times, day=st.dates(date(2005, 1, 1), date(2035, 1, 1)))
def test_clocks_show_it_at_its_moment_unless_a_change_left_it_out(daily: TimeOfDay, day: date) -> None:
    moment = daily.moment(day)
    shown = moment.astimezone(daily.zone).replace(tzinfo=None, fold=0)
    wanted = datetime.combine(day, daily.at)
    offsets = {near.astimezone(daily.zone).utcoffset() for near in (moment - DAY, moment, moment + DAY)}
    assert shown == wanted or (shown > wanted and len(offsets) > 1)
    earlier = [moment - timedelta(minutes=back) for back in (30, 60)]
    assert all(one.astimezone(daily.zone).replace(tzinfo=None, fold=0) != wanted for one in earlier)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
