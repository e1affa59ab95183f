"""Times in whole milliseconds."""

from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.clock import not_before, now

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def test_the_current_time_is_in_whole_milliseconds() -> None:
    assert now().microsecond % 1000 == 0


@pytest.mark.parametrize(("microseconds", "kept"), [(0, 0), (1, 1000), (999, 1000), (1000, 1000), (999_999, 1_000_000)])
def test_an_alarm_is_never_set_before_its_time(microseconds: int, kept: int) -> None:
    assert not_before(NOON + timedelta(microseconds=microseconds)) == NOON + timedelta(microseconds=kept)
