"""Run windows: when they are open, over midnight, over changes of the clocks, and which of them a task obeys."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.schedule.run_windows import (
    AtEdge,
    RunWindow,
    closed_for,
    next_edge,
    openings_near,
    span_to,
    windows_for,
)
from orchestrator.core.task.task import Schedule, Task
from tests.unit.playbook import a_task

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = RunWindow(name="night", days=frozenset(range(5)), opens=time(22), closes=time(6, 30), zone=BERLIN)
MONDAY = datetime(2026, 5, 25, tzinfo=BERLIN)
ZONES = st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]).map(
    ZoneInfo
)
CLOCKS = st.times(max_value=time(23, 59)).map(lambda at: at.replace(second=0, microsecond=0))
WINDOWS = st.builds(
    RunWindow,
    name=st.sampled_from("abc"),
    days=st.frozensets(st.integers(0, 6), min_size=1),
    opens=CLOCKS,
    closes=CLOCKS,
    zone=ZONES,
    at_edge=st.sampled_from(AtEdge),
)
MOMENTS = st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


def is_open(*windows: RunWindow, at: datetime, task: Task | None = None) -> bool:
    return closed_for(windows, task or a_task(), at) is None


def local(day: int, hour: int, minute: int = 0, month: int = 5) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN)


def test_without_a_window_a_task_may_run_at_any_time() -> None:
    assert is_open(at=MONDAY)


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (local(25, 21, 59), False),
        (local(25, 22), True),
        (local(26, 6, 29), True),
        (local(26, 6, 30), False),
        (local(30, 3), True),  # Saturday, from Friday evening on
        (local(30, 22), False),
        (local(31, 22), False),
        (local(25, 3), False),  # Monday before dawn belongs to Sunday's night
    ],
)
def test_a_window_over_midnight_opens_in_the_evening_of_its_days(at: datetime, wanted: bool) -> None:
    assert is_open(NIGHT, at=at) is wanted


def test_a_closed_window_says_when_it_opens_by_its_own_clocks_and_from_now() -> None:
    closed = closed_for((NIGHT,), a_task(), local(26, 19))
    assert closed is not None
    assert closed.opens_in(local(26, 19)) == "its run window night opens at 22:00 Europe/Berlin, in 3 h"
    assert closed.reason == "its run window night is closed until Tue 2026-05-26 22:00 Europe/Berlin"
    weekend = closed_for((NIGHT,), a_task(), local(30, 12))
    assert weekend is not None
    assert weekend.opens_in(local(30, 12)).endswith("opens at Mon 2026-06-01 22:00 Europe/Berlin, in 2 days")


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 28, 7.5), (10, 24, 9.5), (5, 23, 8.5)])
def test_a_night_in_which_clocks_change_is_an_hour_shorter_or_longer(month: int, day: int, hours: float) -> None:
    found = replace(NIGHT, days=frozenset({5})).opening(date(2026, month, day))
    assert found is not None
    assert found.end - found.start == timedelta(hours=hours)


def test_hours_that_a_change_of_the_clocks_leaves_out_come_later() -> None:
    early = replace(NIGHT, days=frozenset({6}), opens=time(2, 15), closes=time(4))
    found = early.opening(date(2026, 3, 29))
    assert found is not None
    assert found.start.astimezone(BERLIN).isoformat() == "2026-03-29T03:15:00+02:00"


def test_of_hours_that_come_twice_the_first_are_meant() -> None:
    early = replace(NIGHT, days=frozenset({6}), opens=time(2, 15), closes=time(2, 45))
    found = early.opening(date(2026, 10, 25))
    assert found is not None
    assert (found.start, found.end - found.start) == (datetime(2026, 10, 25, 0, 15, tzinfo=UTC), timedelta(minutes=30))


def test_a_task_obeys_the_windows_that_name_it_most_precisely() -> None:
    of_shop = replace(NIGHT, name="shop", repos=("/work/shop",))
    of_both = replace(NIGHT, name="both", repos=("sho*",), pipelines=("standard",))
    windows = (NIGHT, of_shop, of_both)
    assert windows_for(windows, "/work/shop", "standard") == (of_both,)
    assert windows_for(windows, "/work/shop", "quick") == (of_shop,)
    assert windows_for(windows, "/work/other", "quick") == (NIGHT,)
    assert windows_for((of_shop,), "/work/other", "quick") == ()


def test_a_task_may_run_while_one_of_its_windows_is_open() -> None:
    noon = replace(NIGHT, name="noon", opens=time(12), closes=time(13))
    assert is_open(NIGHT, noon, at=local(25, 12, 30))
    assert is_open(NIGHT, noon, at=local(25, 23))
    assert not is_open(NIGHT, noon, at=local(25, 14))


def test_what_a_person_let_run_may_run_until_its_windows_close_the_next_time() -> None:
    let_run = replace(a_task(), schedule=Schedule(let_run_at=local(26, 10)))
    assert is_open(NIGHT, at=local(26, 12), task=let_run)
    assert is_open(NIGHT, at=local(26, 23), task=let_run)
    assert not is_open(NIGHT, at=local(27, 7), task=let_run)


def test_the_window_that_closes_last_says_what_happens_then() -> None:
    gentle = replace(NIGHT, name="gentle", closes=time(8), at_edge=AtEdge.END_TURN)
    closed = closed_for((NIGHT, gentle), a_task(), local(26, 9))
    assert closed is not None
    assert closed.at_edge is AtEdge.END_TURN


@given(windows=st.lists(WINDOWS, min_size=1, max_size=4).map(tuple), at=MOMENTS)
def test_a_closed_time_lasts_from_the_last_closing_to_the_next_opening(
    windows: tuple[RunWindow, ...], at: datetime
) -> None:
    closed = closed_for(windows, a_task(), at)
    inside = any(one.start <= at < one.end for one in openings_near(windows, at.date()))
    assert inside is (closed is None)
    if closed is not None:
        assert closed.until is not None
        assert closed.since is not None
        assert closed.since <= at < closed.until
        assert is_open(*windows, at=closed.until)
        assert is_open(*windows, at=closed.since - timedelta(microseconds=1))
        middle = closed.since + (closed.until - closed.since) / 2
        assert not is_open(*windows, at=middle)


@given(windows=st.lists(WINDOWS, min_size=1, max_size=4).map(tuple), at=MOMENTS)
def test_nothing_changes_before_the_next_edge(windows: tuple[RunWindow, ...], at: datetime) -> None:
    edge = next_edge(windows, at)
    assert edge is not None
    assert edge > at
    assert is_open(*windows, at=at) is is_open(*windows, at=edge - timedelta(microseconds=1))


@given(window=WINDOWS, day=st.dates(date(2025, 1, 1), date(2028, 1, 1)))
def test_a_window_is_open_as_long_as_clocks_say_or_as_much_more_or_less_as_they_change(
    window: RunWindow, day: date
) -> None:
    found = window.opening(day)
    start, end = datetime.combine(day, window.opens), datetime.combine(day, window.closes)
    said = end - start if window.opens < window.closes else end - start + timedelta(days=1)
    if day.weekday() not in window.days:
        assert found is None
    elif found is None:
        assert said <= timedelta(hours=1)
    else:
        assert abs(found.end - found.start - said) <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("minutes", "said"), [(0.5, "in a moment"), (90, "in 90 min"), (180, "in 3 h"), (60 * 72, "in 3 days")]
)
def test_how_far_off_a_time_is_said_in_a_fitting_unit(minutes: float, said: str) -> None:
    assert span_to(MONDAY + timedelta(minutes=minutes), MONDAY) == said


def test_a_window_of_a_repository_holds_for_the_daemon_s_copy_of_its_address() -> None:
    window = replace(NIGHT, repos=("textkit",))
    assert window.is_meant_for("/home/a/textkit", "full")
    assert window.is_meant_for("/data/sources/textkit-0123456789ab", "full")
    assert not window.is_meant_for("/data/sources/other-0123456789ab", "full")
    assert not window.is_meant_for("/home/a/textkit-0123456789ab", "full")
