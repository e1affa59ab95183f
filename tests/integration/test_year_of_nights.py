"""Nights around both changes of the clocks, with schedules, run windows, crashes, and channels that die and return."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from tests.year.__main__ import both, simulate


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the log, which would have a line for each of thousands of decisions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.reset_defaults()


@pytest.mark.timeout(300)
def test_people_are_told_everything_once_and_why_tells_the_truth_when_summer_time_begins(tmp_path: Path) -> None:
    found = both(tmp_path, datetime(2026, 3, 27, 18, tzinfo=UTC), 3.0, 1)
    assert found.broken == []
    assert len(found.receivers.taken) > 20
    assert found.watch.reasons.asked > 100
    assert found.report.crashes > 3


@pytest.mark.timeout(300)
def test_people_are_told_everything_once_and_why_tells_the_truth_when_summer_time_ends(tmp_path: Path) -> None:
    found = simulate(tmp_path, datetime(2026, 10, 23, 18, tzinfo=UTC), 3.0, 2)
    assert found.broken == []
    assert {"refused", "429", "500"} <= {answer for _, answer in found.receivers.tries}
    assert found.watch.reasons.kept["window: the time it named"]
