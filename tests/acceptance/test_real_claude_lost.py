"""The real claude CLI lost, refused, overloaded, idle or endless under the real daemon: how a task goes on."""

import os
import queue
import signal
import threading
from pathlib import Path

import psutil
import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.claude_house import PATIENCE, STEPS, ClaudeHouse, Ticker
from tests.acceptance.claude_roles import Roles, running_first
from tests.fakes.playwright import Fail, Playwright, Reply, Scene

pytestmark = pytest.mark.claude

TOKENS_OF_A_CALL = 150
OVERLOADED = Fail(529, "overloaded_error", "Overloaded")
REFUSED = Fail(401, "authentication_error", "invalid x-api-key")


def failing(count: int, reply: Fail, roles: Roles) -> Playwright:
    """Roles behind an API that fails so many times first."""
    left = [reply] * count
    return lambda scene: left.pop() if left else roles(scene)


def kill_agent(house: ClaudeHouse, task: str) -> None:
    pid = house.client.task(task).agent.pid
    assert pid
    os.kill(pid, signal.SIGKILL)


def assert_resumed(house: ClaudeHouse, task: TaskView) -> None:
    """The implementer's session was begun once and gone on with once."""
    planner, implementer, resumed = (session.partition("=") for session in house.sessions(task))
    assert (planner[0], implementer[0], resumed[0]) == ("--session-id", "--session-id", "--resume")
    assert planner[2] != implementer[2] == resumed[2]


def test_an_agent_killed_in_mid_tool_is_resumed_in_its_session(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        ticker.begins(house)
        kill_agent(house, name)
        task = house.end_of(name)
        ticker.assert_is_silent()
        house.assert_done_once(task)
        assert_resumed(house, task)
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"]
        told_of = len(house.api.scenes) - 1  # the call before the kill was in no result
        assert task.agent.tokens_used == told_of * TOKENS_OF_A_CALL


@pytest.mark.long
def test_a_refused_key_is_a_matter_for_a_person(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, lambda _: REFUSED) as house:
        task = house.end_of(house.submit())
        assert task.status is TaskStatus.BLOCKED
        assert len(house.sessions(task)) == 1
        assert "Invalid API key" in str(task.block_reason)
        assert "orchestrator doctor" in str(task.block_reason)
        assert house.survivors() == []


@pytest.mark.long
def test_an_overload_that_the_cli_waits_out_is_no_failure(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, failing(2, OVERLOADED, Roles())) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.failures.total) == (TaskStatus.COMPLETED, 0)
        assert house.steps(task) == STEPS


def test_an_overload_that_lasts_is_waited_out_and_costs_no_attempt(claude: Path, tmp_path: Path) -> None:
    playwright = failing(4, OVERLOADED, Roles())
    with ClaudeHouse(claude, tmp_path, playwright) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.failures.total, task.agent.attempt) == (TaskStatus.COMPLETED, 0, 2)
        assert house.steps(task) == STEPS


@pytest.mark.long
@pytest.mark.parametrize(
    ("turn", "told"),
    [
        ("ANALYSIS", "the turn ended without any work: no tool was used and nothing was left behind"),
        ("IMPLEMENTATION 2", "no new commit was made for this step"),
    ],
)
def test_a_turn_without_work_fails_its_gate_and_is_told_so(claude: Path, tmp_path: Path, turn: str, told: str) -> None:
    with ClaudeHouse(claude, tmp_path, Roles(idle=frozenset({turn}))) as house:
        task = house.end_of(house.submit())
        house.assert_done_once(task)
        assert [prompt for prompt in house.prompts() if told in prompt.partition("Still missing")[2]]
        assert len(house.prompts()) == 7


@pytest.mark.long
def test_a_turn_that_takes_too_long_is_interrupted_and_resumed(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2"), turn_timeout=15.0) as house:
        task = house.end_of(house.submit())
        house.assert_done_once(task)
        assert [entry.type for entry in task.failures.entries] == ["turn_timeout"]
        assert_resumed(house, task)


@pytest.mark.long
def test_what_an_agent_left_in_the_background_ends_with_it(claude: Path, tmp_path: Path) -> None:
    leave = "setsid sh -c 'sleep 1000' >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 &"
    with ClaudeHouse(claude, tmp_path, running_first(leave, "IMPLEMENTATION 3")) as house:
        house.assert_done_once(house.end_of(house.submit()))


def test_an_agent_killed_again_and_again_before_its_first_answer_begins_anew(claude: Path, tmp_path: Path) -> None:
    asked: queue.Queue[threading.Event] = queue.Queue()

    def playwright(scene: Scene) -> Reply:
        if len(house.prompts()) <= 2:
            killed = threading.Event()
            asked.put(killed)
            killed.wait(PATIENCE)
        return Roles()(scene)

    with ClaudeHouse(claude, tmp_path, playwright) as house:
        name = house.submit()
        for _ in range(2):
            killed = asked.get(timeout=PATIENCE)
            kill_agent(house, name)
            killed.set()
        task = house.end_of(name)
        assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
        assert house.steps(task) == STEPS
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"] * 2


@pytest.mark.long
def test_an_agent_whose_holder_is_killed_is_resumed_in_its_session(
    claude: Path, tmp_path: Path, ticker: Ticker
) -> None:
    with ClaudeHouse(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        ticker.begins(house)
        pid = house.client.task(name).agent.pid
        assert pid
        parent = psutil.Process(pid).parent()
        assert parent
        parent.kill()
        task = house.end_of(name)
        ticker.assert_is_silent()
        house.assert_done_once(task)
        assert_resumed(house, task)
