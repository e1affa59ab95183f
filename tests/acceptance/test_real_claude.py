"""The whole program with the real claude CLI as its agents, against a scripted Messages API on loopback."""

import os
from pathlib import Path

import pytest

from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.claude_house import STEPS, ClaudeHouse, Ticker
from tests.acceptance.claude_roles import Roles, running_first
from tests.fakes.playwright import Drip, Reply, Say, Scene
from tests.integration.processes.stage import stands_still

pytestmark = pytest.mark.claude

REPAIRS = ["Repair how slugify joins words", "Test slugify with hyphens at its edges"]


def frozen(house: ClaudeHouse, ticker: Ticker, task: str) -> TaskView:
    """The task, paused in the middle of the ticking command."""
    ticker.begins(house)
    house.client.request(task, "pause")
    return house.wait_for(task, lambda now: now.run and now.run.process is ProcessState.FROZEN)


def assert_stands_still(house: ClaudeHouse, ticker: Ticker, task: TaskView) -> None:
    processes = house.processes_of(task)
    assert len({os.getsid(process.pid) for process in processes}) > 1, "the command has a session of its own"
    assert all(stands_still(process.pid) for process in processes)
    ticker.assert_is_silent()


@pytest.mark.long
def test_a_ticket_becomes_a_tested_and_delivered_branch(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, Roles()) as house:
        task = house.end_of(house.submit())
        house.assert_done_once(task)
        assert [session.partition("=")[0] for session in house.sessions(task)] == ["--session-id"] * 2
        assert task.failures.total == 0


@pytest.mark.long
def test_a_failed_evaluation_is_explained_and_mended(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, Roles(careless=True)) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.cycle) == (TaskStatus.COMPLETED, 2)
        assert house.steps(task) == STEPS + REPAIRS
        assert [prompt.split()[1] for prompt in house.prompts()].count("EVALUATION") == 1
        repair = (Path(task.folder) / "plan-fix-1.md").read_text()
        assert repair.startswith("## Failure")
        assert [(entry.state, entry.exit_code) for entry in task.failures.entries] == [("EVALUATION", 1)]
        assert house.survivors() == []


@pytest.mark.long
def test_a_frozen_command_stops_ticking_and_goes_on_after(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        task = frozen(house, ticker, name)
        assert_stands_still(house, ticker, task)
        house.client.request(name, "resume")
        ticker.assert_goes_on(house)
        ticker.let_go()
        house.assert_done_once(house.end_of(name))


def test_a_daemon_killed_in_mid_turn_goes_on_with_the_same_agent(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        ticker.begins(house)
        house.kill()
        ticker.assert_goes_on(house)
        house.start()
        ticker.let_go()
        task = house.end_of(name)
        house.assert_done_once(task)
        assert [session.partition("=")[0] for session in house.sessions(task)] == ["--session-id"] * 2


@pytest.mark.long
def test_a_turn_that_ends_while_the_daemon_is_away_counts(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        ticker.begins(house)
        task = house.client.task(name)
        house.kill()
        ticker.let_go()
        output = Path(task.folder) / "agents/2/stdout.jsonl"
        house.until(lambda: output.read_bytes().count(b'"type":"result"') == 2, "the turn has its result")
        house.start()
        house.assert_done_once(house.end_of(name))


def test_a_daemon_killed_while_an_agent_is_frozen_finds_it_frozen(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        task = frozen(house, ticker, name)
        house.kill()
        assert_stands_still(house, ticker, task)
        house.start()
        task = house.client.task(name)
        assert task.paused
        assert_stands_still(house, ticker, task)
        house.client.request(name, "resume")
        ticker.assert_goes_on(house)
        ticker.let_go()
        house.assert_done_once(house.end_of(name))


@pytest.mark.long
def test_a_cancelled_agent_and_its_command_are_gone(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        ticker.begins(house)
        house.client.request(name, "cancel")
        house.wait_for(name, lambda now: now.status is TaskStatus.CANCELLED and now.run is None)
        assert house.survivors() == []


@pytest.mark.long
def test_a_daemon_that_is_told_to_end_leaves_its_agents_at_work(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        ticker.begins(house)
        assert house.stop() == 0
        ticker.assert_goes_on(house)
        house.start()
        ticker.let_go()
        house.assert_done_once(house.end_of(name))


def test_an_answer_that_was_frozen_in_its_middle_comes_whole(claude: Path, tmp_path: Path) -> None:
    def playwright(scene: Scene) -> Reply:
        reply = Roles()(scene)
        dripping = isinstance(reply, Say) and scene.prompt.startswith("# PLANNING")
        return Drip(("The plan ", *("drip " for _ in range(15)), "is there."), every=0.1) if dripping else reply

    with ClaudeHouse(claude, tmp_path, playwright) as house:
        name = house.submit()
        house.until(lambda: len(house.prompts()) == 2 and house.api.scenes[-1].step > 0, "the answer begins")
        house.client.request(name, "pause")
        house.wait_for(name, lambda now: now.run and now.run.process is ProcessState.FROZEN)
        house.kill()
        house.start()
        house.client.request(name, "resume")
        house.assert_done_once(house.end_of(name))


@pytest.mark.long
def test_agents_stand_still_while_the_daemon_stays_away_too_long(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 1"), orphan_after=2.0) as house:
        name = house.submit()
        ticker.begins(house)
        task = house.client.task(name)
        house.kill()
        house.until(
            lambda: all(stands_still(process.pid) for process in house.processes_of(task)), "everything stands still"
        )
        assert_stands_still(house, ticker, task)
        house.start()
        ticker.let_go()
        house.assert_done_once(house.end_of(name))
