"""A daemon that is drained ends every agent with its session kept; its successor goes on with all of them."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.house import House, line_count
from tests.acceptance.test_asking import ASKING, QUESTION
from tests.acceptance.test_parking import sessions


@pytest.mark.parametrize("restarted", [False, True])
def test_agents_at_work_and_agents_that_wait_are_ended_and_go_on_in_their_sessions(
    tmp_path: Path, restarted: bool
) -> None:
    ticks = tmp_path / "ticks"
    turn = [{"question": QUESTION}, {"tick": {"file": str(ticks), "seconds": 600}}]
    with House(tmp_path, {"PLANNING": [turn]}, max_agents=2) as house:
        asking = house.submit(**ASKING)
        house.wait_until_it_asks(asking)
        working = house.submit()
        house.wait_until(working, lambda now: bool(now.run) and line_count(ticks) > 1)
        drained = house.cli("drain")
        assert drained.returncode == 0, drained.stderr
        for task in (asking, working):
            house.wait_until(task, lambda now: now.run is None)
        assert house.nothing_is_left()
        waiting = house.submit()
        assert house.client.status().health == "draining"
        assert house.client.task(waiting).status is TaskStatus.PENDING
        if restarted:
            assert house.stop() == 0
            house.start()
        else:
            assert house.cli("resume", "--all").returncode == 0
        assert house.cli("answer", asking, "Latin").returncode == 0
        for task in (asking, working):
            assert house.wait_for_end(task).failures.total == 0
        house.wait_until(waiting, lambda now: now.status is TaskStatus.IN_PROGRESS)
        first, second = sessions(house, asking, attempts=2)
        assert second == (first[0], "1")
        first, second = sessions(house, working, attempts=2)
        assert second == (first[0], "1")


def test_an_agent_that_is_being_started_is_ended_all_the_same(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        task = house.submit()
        house.wait_until(task, lambda now: now.run is not None)
        assert house.cli("drain").returncode == 0
        house.wait_until(task, lambda now: now.paused)
        assert house.nothing_is_left()
        house.stop()
        assert house.nothing_is_left()
        house.start()
        assert house.wait_for_end(task).failures.total == 0
