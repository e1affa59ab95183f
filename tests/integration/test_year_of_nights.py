"""Nights around both changes of the clocks, with schedules, run windows, crashes, and channels that die and return."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog

from orchestrator.core.events import events
from orchestrator.core.task.task import Task
from orchestrator.supervisor.simulation.people import UserAction
from orchestrator.supervisor.simulation.runner import Daemon
from tests.year.__main__ import Nights, Result, both, simulate
from tests.year.families import ALL_NIGHT, BUSY, REPOS, crashes_at_edges, families
from tests.year.night_watch import NightWatch


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silence the log, which would have a line for each of thousands of decisions."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.reset_defaults()


class DiesWhenABudgetIsRaised(NightWatch):
    """The daemon dies whenever it has stored that a person raised a budget, before anybody hears of that."""

    raised = 0

    async def _perform(self, daemon: Daemon, action: UserAction) -> None:
        if isinstance(action.event(self.time()), events.CapsChanged):
            self._faults.crash_after(1)
            self.raised += 1
        await super()._perform(daemon, action)


@pytest.mark.timeout(300)
def test_why_told_the_truth_of_a_budget_that_was_raised_just_before_a_crash(tmp_path: Path) -> None:
    start = datetime(2026, 4, 7, 18, tzinfo=UTC)
    nights = Nights(start=start, days=1.5, seed=6, has_channels=False, kind=DiesWhenABudgetIsRaised)
    found = simulate(tmp_path, nights)
    assert isinstance(found.watch, DiesWhenABudgetIsRaised)
    assert found.watch.raised > 2
    assert found.watch.reasons.broken == []
    assert found.watch.reasons.kept["budget: a person"] > 1


@pytest.mark.timeout(300)
def test_people_are_told_everything_once_and_why_tells_the_truth_when_summer_time_begins(tmp_path: Path) -> None:
    found = both(tmp_path, Nights(start=datetime(2026, 3, 28, 12, tzinfo=UTC), days=2.0, seed=1))
    assert found.broken == []
    assert len(found.receivers.taken) > 20
    assert found.watch.reasons.asked > 100
    assert found.report.crashes > 2


@pytest.mark.timeout(300)
def test_people_are_told_everything_once_and_why_tells_the_truth_when_summer_time_ends(tmp_path: Path) -> None:
    found = simulate(tmp_path, Nights(start=datetime(2026, 10, 24, 12, tzinfo=UTC), days=2.0, seed=2))
    assert found.broken == []
    assert len({answer for _, answer in found.receivers.tries}) > 3, "receivers failed in several ways"
    assert found.watch.reasons.kept["window: the time it named"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [datetime(2026, 3, 28, 16, tzinfo=UTC), datetime(2026, 10, 24, 16, tzinfo=UTC)])
def test_families_stop_and_go_on_at_the_edges_of_their_own_windows_when_clocks_change(
    tmp_path: Path, start: datetime
) -> None:
    nights = Nights(
        start=start,
        days=0.75,
        seed=1,
        has_channels=False,
        tickets_a_day=2.0,
        schedules=ALL_NIGHT,
        config=families(),
        probabilities=BUSY,
        repos=REPOS,
        crash_at=crashes_at_edges(start, 0.75, 1),
    )
    found = simulate(tmp_path, nights)
    assert found.broken == []
    assert any(one.parent and _waited(found, one) for one in found.watch.tasks()), "a child stood at an edge"
    paused = {name for _, name, command in found.watch.dispatched if command in ("FreezeRun", "ThawRun")}
    assert any("." in name for name in paused), "its processes were frozen"
    assert any(one.schedule.let_run_at for one in found.watch.tasks()), "a person let one run while it was closed"
    assert found.report.crashes > 3


def _waited(found: Result, task: Task) -> bool:
    return "window" in found.watch.stops.reasons(task.id)
