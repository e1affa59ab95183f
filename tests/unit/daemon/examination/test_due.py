"""When an examination is due, by clocks that change."""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from orchestrator.daemon.examination.due import last_due

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = time(21, 0)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-07-10T18:59", "2026-07-09T19:00"),
        ("2026-07-10T19:00", "2026-07-10T19:00"),
        ("2026-07-11T03:00", "2026-07-10T19:00"),
        ("2026-10-24T19:30", "2026-10-24T19:00"),  # the evening before the clocks go back
        ("2026-10-25T20:30", "2026-10-25T20:00"),  # the evening after
        ("2026-03-29T19:30", "2026-03-29T19:00"),  # the day on which they went forward
    ],
)
def test_it_is_due_each_evening_by_the_clocks_of_the_zone(now: str, due: str) -> None:
    assert last_due(at(now), EVENING, BERLIN, None) == at(due)


def test_it_is_due_before_a_run_window_too() -> None:
    window = at("2026-07-10T21:30")
    assert last_due(at("2026-07-10T21:29"), EVENING, UTC, window) == at("2026-07-10T21:00")
    assert last_due(at("2026-07-10T21:31"), EVENING, UTC, window) == window
    assert last_due(at("2026-07-10T21:31"), None, UTC, window) == window


def test_without_a_time_and_windows_it_is_never_due() -> None:
    assert last_due(at("2026-07-10T21:31"), None, UTC, None) is None


def test_a_time_that_the_clocks_leave_out_counts_as_later() -> None:
    due = last_due(at("2026-03-29T05:00"), time(2, 30), BERLIN, None)
    assert due == at("2026-03-29T01:30")
