"""People who pause, resume and cancel at any moment: nothing is lost or done twice by it, and nothing is left."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import RequestRefused
from tests.acceptance.harness import ENDED, DaemonHarness, line_count
from tests.chaos import STAGES_TURNS, STEPS, THINKING


def test_a_task_paused_and_resumed_at_any_moment_does_the_same_work_once(tmp_path: Path) -> None:
    dice = random.Random(5)
    with DaemonHarness(tmp_path, scenario=THINKING) as harness:
        task = harness.submit()
        paused = 0
        while harness.client.task(task).status not in ENDED:
            time.sleep(dice.uniform(0, 0.2))
            with suppress(RequestRefused):
                harness.client.request(task, "pause")
                paused += 1
                time.sleep(dice.uniform(0, 0.1))
                harness.client.request(task, "resume")
        done = harness.wait_for_end(task)
        assert paused >= 5
        assert done.failures.total == 0
        assert len(harness.taken_turns()) == STAGES_TURNS
        assert len(harness.subjects(task)) == STEPS
        assert line_count(harness.checks_run) == 1
        assert harness.nothing_is_left()


def test_a_task_cancelled_at_any_moment_ends_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    dice = random.Random(6)
    with DaemonHarness(tmp_path, scenario=THINKING) as harness:
        for _ in range(8):
            task = harness.submit()
            time.sleep(dice.uniform(0, 1.2))
            with suppress(RequestRefused):
                harness.client.request(task, "cancel")
            ended = harness.wait_until(task, lambda now: now.status in ENDED and now.run is None)
            assert ended.status in {TaskStatus.CANCELLED, TaskStatus.COMPLETED}
            assert harness.nothing_is_left()
        assert harness.client.status().places_taken == 0


@pytest.mark.parametrize("stubborn", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_task_cancelled_just_before_the_daemon_is_killed_ends_at_the_next_start(
    tmp_path: Path, stubborn: bool
) -> None:
    manners = [{"ignore_term": True}] if stubborn else []
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [[*manners, {"think_ms": 600_000}]]}) as harness:
        task = harness.submit()
        harness.wait_for("the agent's first turn", harness.taken_turns)
        harness.client.request(task, "cancel")
        harness.kill()
        harness.start()
        ended = harness.wait_until(task, lambda now: now.run is None)
        assert ended.status is TaskStatus.CANCELLED
        assert harness.nothing_is_left()


def test_what_a_check_leaves_behind_is_swept_and_one_that_never_ends_is_stopped(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, checks={"timeout": 2.0}) as harness:
        task = harness.submit(
            checks={"unit_test": "setsid sleep 600 & exit 0", "slow": "trap '' TERM; sleep 600 & wait"}
        )
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert blocked.results["unit_test"].reason == "exit code 0"
        assert "it was stopped after 2 s" in blocked.results["slow"].reason
        assert harness.nothing_is_left()
