"""People who pause, resume and cancel at any moment: nothing is lost or done twice by it, and nothing is left."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import RequestRefused
from tests.acceptance.house import ENDED, House, line_count
from tests.chaos import STAGES_TURNS, STEPS, THINKING


def test_a_task_paused_and_resumed_at_any_moment_does_the_same_work_once(tmp_path: Path) -> None:
    dice = random.Random(5)
    with House(tmp_path, scenario=THINKING) as house:
        task = house.submit()
        paused = 0
        while house.client.task(task).status not in ENDED:
            time.sleep(dice.uniform(0, 0.2))
            with suppress(RequestRefused):
                house.client.request(task, "pause")
                paused += 1
                time.sleep(dice.uniform(0, 0.1))
                house.client.request(task, "resume")
        done = house.wait_for_end(task)
        assert paused >= 5
        assert done.failures.total == 0
        assert len(house.taken_turns()) == STAGES_TURNS
        assert len(house.subjects(task)) == STEPS
        assert line_count(house.checks_run) == 1
        assert house.nothing_is_left()


def test_a_task_cancelled_at_any_moment_ends_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    dice = random.Random(6)
    with House(tmp_path, scenario=THINKING) as house:
        for _ in range(8):
            task = house.submit()
            time.sleep(dice.uniform(0, 1.2))
            with suppress(RequestRefused):
                house.client.request(task, "cancel")
            ended = house.wait_until(task, lambda now: now.status in ENDED and now.run is None)
            assert ended.status in {TaskStatus.CANCELLED, TaskStatus.COMPLETED}
            assert house.nothing_is_left()
        assert house.client.status().places_taken == 0


@pytest.mark.parametrize("stubborn", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_task_cancelled_just_before_the_daemon_is_killed_ends_at_the_next_start(
    tmp_path: Path, stubborn: bool
) -> None:
    manners = [{"ignore_term": True}] if stubborn else []
    with House(tmp_path, scenario={"ANALYSIS": [[*manners, {"think_ms": 600_000}]]}) as house:
        task = house.submit()
        house.wait_for("the agent's first turn", house.taken_turns)
        house.client.request(task, "cancel")
        house.kill()
        house.start()
        ended = house.wait_until(task, lambda now: now.run is None)
        assert ended.status is TaskStatus.CANCELLED
        assert house.nothing_is_left()


def test_what_a_check_leaves_behind_is_swept_and_one_that_never_ends_is_stopped(tmp_path: Path) -> None:
    with House(tmp_path, checks={"timeout": 2.0}) as house:
        task = house.submit(checks={"unit_test": "setsid sleep 600 & exit 0", "slow": "trap '' TERM; sleep 600 & wait"})
        blocked = house.wait_for_end(task, TaskStatus.BLOCKED)
        assert blocked.results["unit_test"].reason == "exit code 0"
        assert "it was stopped after 2 s" in blocked.results["slow"].reason
        assert house.nothing_is_left()
