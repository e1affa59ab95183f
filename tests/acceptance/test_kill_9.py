"""kill -9 of the daemon, of a holder and of an agent: the same end, no work lost, none done twice, nothing left."""

import os
import random
import signal
from functools import partial
from pathlib import Path

import orjson
import pytest

from tests.acceptance.harness import DaemonHarness, Json, line_count, state_of
from tests.chaos import nights


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_whatever_moment_the_daemon_is_killed_at_no_work_is_lost_and_none_done_twice(tmp_path: Path, seed: int) -> None:
    tolls = [toll for _, toll in nights(tmp_path, random.Random(seed), kills=5, each=5)]
    assert sum(toll.kills for toll in tolls) == 5
    assert [toll for toll in tolls if toll.damage] == []


def test_a_killed_daemon_neither_orphans_nor_repeats_the_check_that_runs(tmp_path: Path) -> None:
    check = f"for i in $(seq 100); do echo $i >> '{tmp_path}/ticks'; sleep 0.1; done"
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit(checks={"unit_test": check})
        harness.wait_for("the check's first tick", lambda: line_count(tmp_path / "ticks"))
        harness.kill()
        ticks = line_count(tmp_path / "ticks")
        harness.wait_for("a tick without the daemon", lambda: line_count(tmp_path / "ticks") > ticks)
        harness.start()
        done = harness.wait_for_end(task)
        assert (tmp_path / "ticks").read_text().split() == [str(number) for number in range(1, 101)]
        assert done.results["unit_test"].exit_code == 0
        assert len(list((harness.folder(task) / "logs").iterdir())) == 1
        assert harness.nothing_is_left()


def test_a_check_that_ended_while_no_daemon_ran_keeps_its_exit_code(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        wait = f"touch '{tmp_path}/began'; while [ ! -e '{tmp_path}/go' ]; do sleep 0.05; done; touch '{tmp_path}/over'"
        task = harness.submit(checks={"unit_test": wait})
        harness.wait_for("the check", (tmp_path / "began").exists)
        harness.kill()
        (tmp_path / "go").touch()
        harness.wait_for("the end of the check", (tmp_path / "over").exists)
        assert harness.nothing_is_left()
        harness.start()
        assert harness.wait_for_end(task).results["unit_test"].reason == "exit code 0"


def test_a_killed_holder_costs_the_attempt_and_the_next_goes_on_with_its_session(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"grandchild": "sleep 600", "think_ms": 600_000}]}) as harness:
        task = harness.submit()
        began = harness.wait_until(
            task, lambda now: now.stage == "ANALYSIS" and now.agent.pid and harness.taken_turns()
        )
        harness.wait_for("the grandchild", lambda: len(harness.survivors()) >= 3)
        os.kill(holder_of(harness, task, began.agent.attempt), signal.SIGKILL)
        done = harness.wait_for_end(task)
        attempts = harness.client.agents(task).attempts
        assert len(attempts) > 1
        (failure,) = harness.state(task)["failure_log"]
        assert failure["actual_outcome"]["summary"] == "it was killed together with its holder"
        assert session_of(harness, task, 2) == (began.agent.session_id, "1")
        assert done.head is not None
        assert harness.nothing_is_left()


def test_holders_that_are_killed_three_times_in_one_turn_cost_the_agent_no_retry(tmp_path: Path) -> None:
    long_turn: Json = {"think_ms": 600_000}
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [long_turn, long_turn, long_turn, []]}) as harness:
        task = harness.submit()
        for attempt in (1, 2, 3):
            harness.wait_for(f"turn {attempt}", partial(has_taken, harness, attempt))
            os.kill(holder_of(harness, task, attempt), signal.SIGKILL)
        done = harness.wait_for_end(task)
        assert done.budgets["agent_retries"].used == 0
        assert [failure["actual_outcome"]["type"] for failure in harness.state(task)["failure_log"]] == [
            "agent_lost"
        ] * 3


def test_a_killed_agent_is_started_again_and_goes_on_with_its_session(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"PLANNING": [{"think_ms": 600_000}]}) as harness:
        task = harness.submit()
        at_work = harness.wait_until(task, lambda now: now.stage == "PLANNING" and len(harness.taken_turns()) == 2)
        assert at_work.agent.pid is not None
        os.kill(at_work.agent.pid, signal.SIGKILL)
        harness.wait_for_end(task)
        (failure,) = harness.state(task)["failure_log"]
        assert "ended by signal 9" in failure["actual_outcome"]["summary"]
        assert session_of(harness, task, 1) == (at_work.agent.session_id, "0")
        assert session_of(harness, task, 2) == (at_work.agent.session_id, "1")


def test_a_holder_killed_while_no_daemon_ran_is_found_out_and_its_tree_is_swept(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"think_ms": 600_000}]}) as harness:
        task = harness.submit()
        began = harness.wait_until(task, lambda now: now.agent.pid and harness.taken_turns())
        harness.kill()
        os.kill(holder_of(harness, task, 1), signal.SIGKILL)
        assert began.agent.pid is not None
        harness.start()
        harness.wait_for("the end of the orphan", lambda: state_of(began.agent.pid or 0) in "-Z")
        harness.wait_for_end(task)
        assert harness.nothing_is_left()


def test_a_daemon_killed_right_after_a_pause_freezes_at_its_next_start(tmp_path: Path) -> None:
    tick = {"file": str(tmp_path / "ticks"), "seconds": 600}
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"tick": tick, "no_work": True}]}) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(tmp_path / "ticks"))
        harness.client.request(task, "pause")
        harness.kill()
        harness.start()
        assert harness.wait_until_frozen(task).run is not None
        harness.client.request(task, "cancel")
        assert harness.nothing_is_left()


def test_a_submission_repeated_after_a_crash_is_not_taken_twice(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit(key="the very same")
        harness.kill()
        harness.start()
        assert harness.submit(key="the very same") == task
        assert len(list((harness.data / "tasks").iterdir())) == 1
        assert harness.wait_for_end(task).run is None


def has_taken(harness: DaemonHarness, turns: int) -> bool:
    """Whether agents began to work at so many turns."""
    return len(harness.taken_turns()) == turns


def holder_of(harness: DaemonHarness, task: str, attempt: int) -> int:
    """The pid of the holder of an agent."""
    return int(orjson.loads((harness.folder(task) / f"agents/{attempt}/pid").read_bytes())["holder"])


def session_of(harness: DaemonHarness, task: str, attempt: int) -> tuple[str, str]:
    """The session that an agent was started with, and whether it was to go on with it."""
    env = orjson.loads((harness.folder(task) / f"agents/{attempt}/spec.json").read_bytes())["env"]
    return env["ORCHESTRATOR_SESSION_ID"], env["ORCHESTRATOR_RESUME"]
