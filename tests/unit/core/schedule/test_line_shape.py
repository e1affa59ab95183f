"""Lines of crontab taken apart: what they name is what the line is due at."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.schedule.line_shape import LineShape, shape_of
from orchestrator.supervisor.recurrence import parse_recurrence

MONDAY = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("0 22 * * 1-5", LineShape(clocks=((22, 0),), weekdays=(1, 2, 3, 4, 5))),
        ("@daily", LineShape(clocks=((0, 0),))),
        ("@hourly", LineShape(every_hours=1)),
        ("0 9,17 * * 0", LineShape(clocks=((9, 0), (17, 0)), weekdays=(0,))),
        ("30 2 * * SAT-SUN", LineShape(clocks=((2, 30),), weekdays=(0, 6))),
        ("*/15 8-18 * * mon-fri", LineShape(every_minutes=15, hours=(8, 18), weekdays=(1, 2, 3, 4, 5))),
        ("5 */2 * * *", LineShape(every_hours=2, minute=5)),
        ("0 6 1,15 jan-jun *", LineShape(clocks=((6, 0),), monthdays=(1, 15), months=(1, 2, 3, 4, 5, 6))),
        ("0 1 * * 0-7", LineShape(clocks=((1, 0),))),
    ],
)
def test_a_line_names_its_times_and_days(line: str, shape: LineShape) -> None:
    assert shape_of(line) == shape


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "0 22 * *",
        "60 1 * * *",
        "1 24 * * *",
        "0 0 0 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "*/0 * * * *",
        "3 1-7 * * *",
    ],
)
def test_what_is_no_line_or_has_no_short_words_has_no_shape(line: str) -> None:
    assert shape_of(line) is None


@given(
    minutes=st.sampled_from(["0", "30", "5,35", "*/10", "*"]),
    hours=st.sampled_from(["22", "9,17", "*", "8-18", "*/6"]),
    weekdays=st.sampled_from(["*", "1-5", "sun", "sat,sun", "0,3"]),
)
def test_the_times_of_a_shape_are_those_of_its_line(minutes: str, hours: str, weekdays: str) -> None:
    line = f"{minutes} {hours} * * {weekdays}"
    shape = shape_of(line)
    if shape is None:
        return
    at, due = MONDAY - timedelta(microseconds=1), set[datetime]()
    following = parse_recurrence(line, UTC).next_after
    while (found := following(at)) is not None and found < MONDAY + timedelta(days=2):
        due.add(at := found)
    every = (MONDAY + timedelta(minutes=number) for number in range(2 * 24 * 60))
    assert due == {one for one in every if is_in(shape, one)}


def is_in(shape: LineShape, at: datetime) -> bool:
    if shape.weekdays and at.isoweekday() % 7 not in shape.weekdays:
        return False
    if shape.clocks:
        return (at.hour, at.minute) in shape.clocks
    if shape.every_hours:
        return at.hour % shape.every_hours == 0 and at.minute == shape.minute
    return shape.hours[0] <= at.hour <= shape.hours[1] and at.minute % shape.every_minutes == 0
