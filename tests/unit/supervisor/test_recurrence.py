"""When a line of crontab is due, in every zone and over both changes of the clocks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron.fields import DayOfMonthField
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.supervisor.recurrence import parse_recurrence

BERLIN = ZoneInfo("Europe/Berlin")


def times(line: str, start: str, count: int, zone: ZoneInfo = BERLIN) -> list[str]:
    recurrence, at = parse_recurrence(line, zone), datetime.fromisoformat(start).replace(tzinfo=zone)
    found = []
    for _ in range(count):
        following = recurrence.next_after(at)
        assert following is not None
        assert following > at
        found.append(following.astimezone(zone).strftime("%a %m-%d %H:%M %z"))
        at = following
    return found


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("0 22 * * 1-5", ["Thu 05-28 22:00 +0200", "Fri 05-29 22:00 +0200", "Mon 06-01 22:00 +0200"]),
        ("0 22 * * 0", ["Sun 05-31 22:00 +0200", "Sun 06-07 22:00 +0200"]),
        ("0 22 * * 7", ["Sun 05-31 22:00 +0200", "Sun 06-07 22:00 +0200"]),
        ("0 22 * * 5-7", ["Fri 05-29 22:00 +0200", "Sat 05-30 22:00 +0200", "Sun 05-31 22:00 +0200"]),
        ("0 22 * * 0-1", ["Sun 05-31 22:00 +0200", "Mon 06-01 22:00 +0200", "Sun 06-07 22:00 +0200"]),
        ("0 22 * * sat,Sun", ["Sat 05-30 22:00 +0200", "Sun 05-31 22:00 +0200"]),
        ("0 22 * * */3", ["Sat 05-30 22:00 +0200", "Sun 05-31 22:00 +0200", "Wed 06-03 22:00 +0200"]),
        ("0 22 1 * *", ["Mon 06-01 22:00 +0200", "Wed 07-01 22:00 +0200"]),
        ("0 22 30 * 5", ["Fri 05-29 22:00 +0200", "Sat 05-30 22:00 +0200"]),
        ("*/15 9-17 * * mon-fri", ["Thu 05-28 12:15 +0200", "Thu 05-28 12:30 +0200"]),
        ("@weekly", ["Sun 05-31 00:00 +0200"]),
        ("0 0 29 2 *", ["Tue 02-29 00:00 +0100"]),
    ],
)  # fmt: skip
def test_a_line_is_due_as_cron_reads_it(line: str, wanted: list[str]) -> None:
    assert times(line, "2026-05-28T12:00", len(wanted)) == wanted


def test_a_time_that_summer_time_leaves_out_comes_an_hour_later_and_once() -> None:
    wanted = ["Sat 03-28 02:30 +0100", "Sun 03-29 03:30 +0200", "Mon 03-30 02:30 +0200"]
    assert times("30 2 * * *", "2026-03-28T00:00", 3) == wanted


def test_a_time_that_comes_twice_counts_the_first_time() -> None:
    wanted = ["Sat 10-24 02:30 +0200", "Sun 10-25 02:30 +0200", "Mon 10-26 02:30 +0100"]
    assert times("30 2 * * *", "2026-10-24T00:00", 3) == wanted


def test_an_hourly_line_goes_on_over_both_changes() -> None:
    spring = ["Sun 03-29 01:00 +0100", "Sun 03-29 03:00 +0200", "Sun 03-29 04:00 +0200"]
    assert times("0 * * * *", "2026-03-29T00:30", 3) == spring
    autumn = ["Sun 10-25 02:00 +0200", "Sun 10-25 03:00 +0100", "Sun 10-25 04:00 +0100"]
    assert times("0 * * * *", "2026-10-25T01:30", 3) == autumn


@pytest.mark.parametrize(
    "line",
    ["", "0 22 * * 8", "60 22 * * *", "0 24 * * *", "0 22 30 2 *", "0 22 * * fry", "a b c d e", "0 22 * * 1-5 x"],
)  # fmt: skip
def test_what_is_no_line_or_never_comes_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_recurrence(line, BERLIN)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("61 * * * *", "the minute '61' is wrong; write 0 to 59"),
        ("0 24 * * *", "the hour '24' is wrong"),
        ("0 2 32 * *", "the day '32' is wrong"),
        ("0 2 1 13 *", "the month '13' is wrong"),
        ("0 2 30 2 *", "never comes.*change the day or the month"),
    ],
)
def test_the_field_that_is_wrong_is_named_with_what_it_may_be(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_recurrence(line, BERLIN)


@pytest.mark.parametrize("line", ["59 23 31 2,4,6,9,11 *", "0 0 30 2 *"])
def test_a_line_that_never_comes_is_refused_without_looking_through_millennia(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    look = DayOfMonthField.get_next_value

    def counted(self: DayOfMonthField, at: datetime) -> object:
        asked.append(at.year)
        return look(self, at)

    monkeypatch.setattr(DayOfMonthField, "get_next_value", counted)
    with pytest.raises(ValueError, match="never comes"):
        parse_recurrence(line, ZoneInfo("Asia/Tokyo"))
    assert max(asked) < 2040


def test_of_two_kinds_of_days_only_those_that_come_are_looked_for() -> None:
    assert len(parse_recurrence("0 0 30 2 1", BERLIN).triggers) == 1


LINES = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(["0", "30", "*/20", "7,52"]),
    st.sampled_from(["*", "2", "1-3", "22", "0,12"]),
    st.sampled_from(["*", "0", "1-5", "sat", "0,3"]),
)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]).map(ZoneInfo)
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@given(line=LINES, zone=ZONES, at=MOMENTS, later=st.integers(0, 5000))
def test_times_only_go_forward_and_none_is_left_out(line: str, zone: ZoneInfo, at: datetime, later: int) -> None:
    recurrence = parse_recurrence(line, zone)
    found = [at]
    while len(found) < 8 and (following := recurrence.next_after(found[-1])) is not None:
        found.append(following)
    assert all(one < other for one, other in pairwise(found))
    between = at + timedelta(minutes=later)
    wanted = next((one for one in found[1:] if one > between), None)
    if wanted is not None:
        assert recurrence.next_after(between) == wanted


@given(zone=ZONES, day=st.dates(datetime(2025, 1, 2).date(), datetime(2027, 12, 30).date()))  # noqa: DTZ001 - bounds
def test_a_daily_line_comes_once_on_every_day(zone: ZoneInfo, day: object) -> None:
    recurrence = parse_recurrence("30 2 * * *", zone)
    start = datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=zone).astimezone(UTC) - timedelta(hours=1)
    first = recurrence.next_after(start)
    assert first is not None
    second = recurrence.next_after(first)
    assert second is not None
    days = [one.astimezone(zone).date() for one in (first, second)]
    assert (days[1] - days[0]).days == 1
