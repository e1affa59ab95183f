"""A daemon that is drained ends every agent with its session kept; its successor goes on with all of them."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, line_count
from tests.acceptance.test_asking import ASKING, QUESTION
from tests.acceptance.test_parking import sessions


@pytest.mark.parametrize("restarted", [False, True])
def test_agents_at_work_and_agents_that_wait_are_ended_and_go_on_in_their_sessions(
    tmp_path: Path, restarted: bool
) -> None:
    ticks = tmp_path / "ticks"
    turn = [{"question": QUESTION}, {"tick": {"file": str(ticks), "seconds": 600}}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}, max_agents=2) as harness:
        asking = harness.submit(**ASKING)
        harness.wait_until_it_asks(asking)
        working = harness.submit()
        harness.wait_until(working, lambda now: bool(now.run) and line_count(ticks) > 1)
        drained = harness.cli("drain")
        assert drained.returncode == 0, drained.stderr
        for task in (asking, working):
            harness.wait_until(task, lambda now: now.run is None)
        assert harness.nothing_is_left()
        waiting = harness.submit()
        assert harness.client.status().health == "draining"
        assert harness.client.task(waiting).status is TaskStatus.PENDING
        if restarted:
            assert harness.stop() == 0
            harness.start()
        else:
            assert harness.cli("resume", "--all").returncode == 0
        assert harness.cli("answer", asking, "Latin").returncode == 0
        for task in (asking, working):
            assert harness.wait_for_end(task).failures.total == 0
        harness.wait_until(waiting, lambda now: now.status is TaskStatus.IN_PROGRESS)
        first, second = sessions(harness, asking, attempts=2)
        assert second == (first[0], "1")
        first, second = sessions(harness, working, attempts=2)
        assert second == (first[0], "1")


def test_an_agent_that_is_being_started_is_ended_all_the_same(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.run is not None)
        assert harness.cli("drain").returncode == 0
        harness.wait_until(task, lambda now: now.paused)
        assert harness.nothing_is_left()
        harness.stop()
        assert harness.nothing_is_left()
        harness.start()
        assert harness.wait_for_end(task).failures.total == 0
