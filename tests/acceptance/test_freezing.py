"""Pausing stops a task's processes in their tracks, and nothing but resuming lets them go on."""

from datetime import UTC, datetime
from pathlib import Path

from tests.acceptance.harness import (
    DaemonHarness,
    Json,
    frozen_pids,
    line_count,
    none_is_missing,
    refused,
    state_of,
    ticking_until,
)
from tests.integration.processes.stage import stands_still


def ticking(file: Path) -> Json:
    """An agent whose command adds a line every 100 ms, in a session of its own, until the file `go` is beside it."""
    return {"ANALYSIS": [{"run": ticking_until(file.with_name("go"), file)}]}


def let_go(ticks: Path) -> None:
    """Let a ticking command come to its end."""
    ticks.with_name("go").touch()


def test_a_frozen_command_stops_ticking_and_goes_on_where_it_was(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks)) as harness:
        task = harness.submit()
        harness.wait_for("three ticks", lambda: line_count(ticks) >= 3)
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        stopped = frozen_pids(harness, task)
        assert len(stopped) >= 2, "the agent and its command, which leads a session of its own"
        before = line_count(ticks)
        assert_stands_still(harness, task, ticks)
        harness.client.request(task, "resume")
        harness.wait_for("the next tick", lambda: line_count(ticks) > before)
        let_go(ticks)
        harness.wait_for_end(task)
        assert none_is_missing(ticks)
        assert harness.nothing_is_left()


def test_what_is_frozen_stays_frozen_when_the_daemon_is_killed_and_until_it_is_resumed(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks)) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        harness.kill()
        assert_stands_still(harness, task, ticks)
        harness.start()
        harness.wait_until_frozen(task)
        assert_stands_still(harness, task, ticks)
        assert harness.stop() == 0
        assert_stands_still(harness, task, ticks)
        harness.start()
        let_go(ticks)
        harness.client.request(task, "resume")
        harness.wait_for_end(task)
        assert none_is_missing(ticks)


def test_a_pause_stops_a_running_check_and_its_result_counts(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit(checks={"unit_test": ticking_until(tmp_path / "go", ticks)})
        harness.wait_for("a tick of the check", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        assert_stands_still(harness, task, ticks)
        let_go(ticks)
        harness.client.request(task, "resume")
        done = harness.wait_for_end(task)
        assert done.results["unit_test"].exit_code == 0
        assert none_is_missing(ticks)


def test_a_frozen_task_gives_its_place_to_the_next_and_takes_it_back_after(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks)) as harness:
        first = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(first, "pause")
        harness.wait_until_frozen(first)
        let_go(ticks)
        harness.wait_for_end(harness.submit())
        assert harness.client.task(first).paused
        harness.client.request(first, "resume")
        harness.wait_for_end(first)


def test_a_frozen_task_can_be_cancelled_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks)) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        harness.client.request(task, "cancel")
        assert harness.nothing_is_left()
        harness.wait_until(task, lambda now: now.run is None)
        with refused("not-allowed"):
            harness.client.request(task, "resume")


def test_an_agent_killed_while_it_was_frozen_is_started_again_after_the_resume_only(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks)) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        harness.end_run(task)
        harness.wait_until(task, lambda now: now.run is None)
        let_go(ticks)
        assert harness.client.task(task).agent.attempt == 1
        assert harness.nothing_is_left()
        harness.client.request(task, "resume")
        assert harness.wait_for_end(task).status.is_final


def test_an_agent_that_froze_while_the_daemon_was_away_goes_on_and_no_time_counts_against_it(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, scenario=ticking(ticks), orphan_after=1.0, turn_timeout=8) as harness:
        task = harness.submit()
        pid = harness.wait_until(task, lambda now: now.agent.pid and line_count(ticks)).agent.pid
        assert pid is not None
        harness.kill()
        harness.wait_for("the freeze of the orphan", lambda: stands_still(pid))
        deadline = datetime.fromisoformat(harness.state(task)["agent"]["turn"]["deadline"])
        harness.wait_for("the end of the turn's time", lambda: datetime.now(UTC) > deadline)
        let_go(ticks)
        harness.start()
        harness.wait_for_end(task)
        assert none_is_missing(ticks)
        assert harness.state(task)["failure_log"] == []


def assert_stands_still(harness: DaemonHarness, task: str, ticks: Path) -> None:
    """No process of the task runs, and for the time of several ticks none comes."""
    before, pids = line_count(ticks), frozen_pids(harness, task)
    for _ in harness.looks(seconds=0.6):
        assert [state_of(pid) for pid in pids if not stands_still(pid)] == []
        assert line_count(ticks) == before
