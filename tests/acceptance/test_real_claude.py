"""The whole program with the real claude CLI as its agents, against a scripted Messages API on loopback."""

import os
from pathlib import Path

import pytest

from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.claude_harness import STEPS, ClaudeHarness, Ticker
from tests.acceptance.claude_roles import Roles, running_first
from tests.fakes.scripted_model import Drip, Reply, Say, Scene
from tests.integration.processes.stage import stands_still

pytestmark = pytest.mark.claude

REPAIRS = ["Repair how slugify joins words", "Test slugify with hyphens at its edges"]


def frozen(harness: ClaudeHarness, ticker: Ticker, task: str) -> TaskView:
    """The task, paused in the middle of the ticking command."""
    ticker.begins(harness)
    harness.client.request(task, "pause")
    return harness.wait_for(task, lambda now: now.run and now.run.process is ProcessState.FROZEN)


def assert_stands_still(harness: ClaudeHarness, ticker: Ticker, task: TaskView) -> None:
    processes = harness.processes_of(task)
    assert len({os.getsid(process.pid) for process in processes}) > 1, "the command has a session of its own"
    assert all(stands_still(process.pid) for process in processes)
    ticker.assert_is_silent()


@pytest.mark.long
def test_a_ticket_becomes_a_tested_and_delivered_branch(claude: Path, tmp_path: Path) -> None:
    with ClaudeHarness(claude, tmp_path, Roles()) as harness:
        task = harness.end_of(harness.submit())
        harness.assert_done_once(task)
        assert [session.partition("=")[0] for session in harness.sessions(task)] == ["--session-id"] * 2
        assert task.failures.total == 0


@pytest.mark.long
def test_a_failed_evaluation_is_explained_and_mended(claude: Path, tmp_path: Path) -> None:
    with ClaudeHarness(claude, tmp_path, Roles(careless=True)) as harness:
        task = harness.end_of(harness.submit())
        assert (task.status, task.cycle) == (TaskStatus.COMPLETED, 2)
        assert harness.steps(task) == STEPS + REPAIRS
        assert [prompt.split()[1] for prompt in harness.prompts()].count("EVALUATION") == 1
        repair = (Path(task.folder) / "plan-fix-1.md").read_text()
        assert repair.startswith("## Failure")
        assert [(entry.state, entry.exit_code) for entry in task.failures.entries] == [("EVALUATION", 1)]
        assert harness.survivors() == []


@pytest.mark.long
def test_a_frozen_command_stops_ticking_and_goes_on_after(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as harness:
        name = harness.submit()
        task = frozen(harness, ticker, name)
        assert_stands_still(harness, ticker, task)
        harness.client.request(name, "resume")
        ticker.assert_goes_on(harness)
        ticker.let_go()
        harness.assert_done_once(harness.end_of(name))


def test_a_daemon_killed_in_mid_turn_goes_on_with_the_same_agent(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        harness.kill()
        ticker.assert_goes_on(harness)
        harness.start()
        ticker.let_go()
        task = harness.end_of(name)
        harness.assert_done_once(task)
        assert [session.partition("=")[0] for session in harness.sessions(task)] == ["--session-id"] * 2


@pytest.mark.long
def test_a_turn_that_ends_while_the_daemon_is_away_counts(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        task = harness.client.task(name)
        harness.kill()
        ticker.let_go()
        output = Path(task.folder) / "agents/2/stdout.jsonl"
        harness.until(lambda: output.read_bytes().count(b'"type":"result"') == 2, "the turn has its result")
        harness.start()
        harness.assert_done_once(harness.end_of(name))


def test_a_daemon_killed_while_an_agent_is_frozen_finds_it_frozen(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as harness:
        name = harness.submit()
        task = frozen(harness, ticker, name)
        harness.kill()
        assert_stands_still(harness, ticker, task)
        harness.start()
        task = harness.client.task(name)
        assert task.paused
        assert_stands_still(harness, ticker, task)
        harness.client.request(name, "resume")
        ticker.assert_goes_on(harness)
        ticker.let_go()
        harness.assert_done_once(harness.end_of(name))


@pytest.mark.long
def test_a_cancelled_agent_and_its_command_are_gone(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        harness.client.request(name, "cancel")
        harness.wait_for(name, lambda now: now.status is TaskStatus.CANCELLED and now.run is None)
        assert harness.survivors() == []


@pytest.mark.long
def test_a_daemon_that_is_told_to_end_leaves_its_agents_at_work(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        assert harness.stop() == 0
        ticker.assert_goes_on(harness)
        harness.start()
        ticker.let_go()
        harness.assert_done_once(harness.end_of(name))


def test_an_answer_that_was_frozen_in_its_middle_comes_whole(claude: Path, tmp_path: Path) -> None:
    def model(scene: Scene) -> Reply:
        reply = Roles()(scene)
        dripping = isinstance(reply, Say) and scene.prompt.startswith("# PLANNING")
        return Drip(("The plan ", *("drip " for _ in range(15)), "is there."), every=0.1) if dripping else reply

    with ClaudeHarness(claude, tmp_path, model) as harness:
        name = harness.submit()
        harness.until(lambda: len(harness.prompts()) == 2 and harness.api.scenes[-1].step > 0, "the answer begins")
        harness.client.request(name, "pause")
        harness.wait_for(name, lambda now: now.run and now.run.process is ProcessState.FROZEN)
        harness.kill()
        harness.start()
        harness.client.request(name, "resume")
        harness.assert_done_once(harness.end_of(name))


@pytest.mark.long
def test_agents_stand_still_while_the_daemon_stays_away_too_long(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(
        claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1"), orphan_after=2.0
    ) as harness:
        name = harness.submit()
        ticker.begins(harness)
        task = harness.client.task(name)
        harness.kill()
        harness.until(
            lambda: all(stands_still(process.pid) for process in harness.processes_of(task)), "everything stands still"
        )
        assert_stands_still(harness, ticker, task)
        harness.start()
        ticker.let_go()
        harness.assert_done_once(harness.end_of(name))
