"""Times as people write them, in the zone of whoever writes them."""

import contextlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.cli.times import parse_future, parse_past

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 5, 28, 12, 0, tzinfo=BERLIN)
ANY_TIME = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
CLOCKS = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("22:00", "2026-05-28T22:00:00+02:00"),
        ("9:30", "2026-05-29T09:30:00+02:00"),
        ("12:00", "2026-05-29T12:00:00+02:00"),
        ("today 22:00", "2026-05-28T22:00:00+02:00"),
        ("tomorrow", "2026-05-29T00:00:00+02:00"),
        ("Tomorrow  22:00", "2026-05-29T22:00:00+02:00"),
        ("+2h", "2026-05-28T14:00:00+02:00"),
        ("+1d", "2026-05-29T12:00:00+02:00"),
        ("+1h30m", "2026-05-28T13:30:00+02:00"),
        ("2026-06-01T08:00", "2026-06-01T08:00:00+02:00"),
        ("2026-06-01T08:00Z", "2026-06-01T10:00:00+02:00"),
        ("2026-06-01", "2026-06-01T00:00:00+02:00"),
    ],
)
def test_a_time_to_come_is_read_as_it_was_meant(text: str, wanted: str) -> None:
    assert parse_future(text, NOON, BERLIN) == datetime.fromisoformat(wanted)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("22:00", "2026-05-27T22:00:00+02:00"),
        ("12:00", "2026-05-28T12:00:00+02:00"),
        ("1h", "2026-05-28T11:00:00+02:00"),
        ("2d", "2026-05-26T12:00:00+02:00"),
        ("1h30m", "2026-05-28T10:30:00+02:00"),
        ("yesterday", "2026-05-27T00:00:00+02:00"),
        ("yesterday 22:00", "2026-05-27T22:00:00+02:00"),
        ("today", "2026-05-28T00:00:00+02:00"),
        ("2026-05-20T08:00", "2026-05-20T08:00:00+02:00"),
    ],
)
def test_a_time_that_has_passed_is_read_as_it_was_meant(text: str, wanted: str) -> None:
    assert parse_past(text, NOON, BERLIN) == datetime.fromisoformat(wanted)


@pytest.mark.parametrize("text", ["", "+", "+2", "25:00", "22:60", "soon", "tomorrow noon", "0001-01-01T00:00", "+٢h"])
def test_what_is_no_time_to_come_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_future(text, NOON, BERLIN)


@pytest.mark.parametrize("text", ["today 09:00", "yesterday", "2026-05-28T11:59"])
def test_a_time_to_come_that_has_passed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is in the past"):
        parse_future(text, NOON, BERLIN)


def test_tomorrow_at_ten_is_at_ten_after_a_change_to_or_from_summer_time() -> None:
    for day in ("2026-03-28T21:00", "2026-10-24T21:00"):
        now = datetime.fromisoformat(day).replace(tzinfo=BERLIN)
        at = parse_future("tomorrow 22:00", now, BERLIN)
        assert (at.hour, at.day) == (22, now.day + 1)
        assert at.utcoffset() != now.utcoffset()


def test_a_time_of_day_that_summer_time_leaves_out_is_an_hour_later() -> None:
    now = datetime(2026, 3, 28, 22, 0, tzinfo=BERLIN)
    assert parse_future("02:30", now, BERLIN).isoformat() == "2026-03-29T03:30:00+02:00"


@given(now=ANY_TIME, clock=CLOCKS)
def test_a_time_of_day_is_within_a_day_of_now_and_on_its_own_side(now: datetime, clock: str) -> None:
    later, earlier = parse_future(clock, now, BERLIN), parse_past(clock, now, BERLIN)
    assert earlier <= now < later
    assert later - earlier <= timedelta(hours=49)


@given(now=ANY_TIME, text=st.text(max_size=12))
def test_any_text_is_a_time_or_refused(now: datetime, text: str) -> None:
    for parse in (parse_future, parse_past):
        with contextlib.suppress(ValueError):
            assert parse(text, now, BERLIN).tzinfo is not None
