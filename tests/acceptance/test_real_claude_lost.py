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
from tests.acceptance.claude_harness import PATIENCE, STEPS, ClaudeHarness, Ticker
from tests.acceptance.claude_roles import Roles, running_first
from tests.fakes.scripted_model import Fail, Reply, Scene, ScriptedModel

pytestmark = pytest.mark.claude

TOKENS_OF_A_CALL = 150
OVERLOADED = Fail(529, "overloaded_error", "Overloaded")
REFUSED = Fail(401, "authentication_error", "invalid x-api-key")


def failing(count: int, reply: Fail, roles: Roles) -> ScriptedModel:
    """Roles behind an API that fails so many times first."""
    left = [reply] * count
    return lambda scene: left.pop() if left else roles(scene)


def kill_agent(harness: ClaudeHarness, task: str) -> None:
    pid = harness.client.task(task).agent.pid
    assert pid
    os.kill(pid, signal.SIGKILL)


def assert_resumed(harness: ClaudeHarness, task: TaskView) -> None:
    """The implementer's session was begun once and gone on with once."""
    planner, implementer, resumed = (session.partition("=") for session in harness.sessions(task))
    assert (planner[0], implementer[0], resumed[0]) == ("--session-id", "--session-id", "--resume")
    assert planner[2] != implementer[2] == resumed[2]


def test_an_agent_killed_in_mid_tool_is_resumed_in_its_session(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        kill_agent(harness, name)
        task = harness.end_of(name)
        ticker.assert_is_silent()
        harness.assert_done_once(task)
        assert_resumed(harness, task)
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"]
        told_of = len(harness.api.scenes) - 1  # the call before the kill was in no result
        assert task.agent.tokens_used == told_of * TOKENS_OF_A_CALL


@pytest.mark.long
def test_a_refused_key_is_a_matter_for_a_person(claude: Path, tmp_path: Path) -> None:
    with ClaudeHarness(claude, tmp_path, lambda _: REFUSED) as harness:
        name = harness.submit()
        harness.until(lambda: harness.client.status().health == "account", "the account is known to be refused")
        harness.until(lambda: harness.survivors() == [], "its agent has ended")
        task = harness.client.task(name)
        assert (task.status, task.paused) == (TaskStatus.IN_PROGRESS, True)
        assert len(harness.sessions(task)) == 1
        assert "Invalid API key" in harness.client.why(name).facts[0]


@pytest.mark.long
def test_an_overload_that_the_cli_waits_out_is_no_failure(claude: Path, tmp_path: Path) -> None:
    with ClaudeHarness(claude, tmp_path, failing(2, OVERLOADED, Roles())) as harness:
        task = harness.end_of(harness.submit())
        assert (task.status, task.failures.total) == (TaskStatus.COMPLETED, 0)
        assert harness.steps(task) == STEPS


def test_an_overload_that_lasts_is_waited_out_and_costs_no_attempt(claude: Path, tmp_path: Path) -> None:
    model = failing(4, OVERLOADED, Roles())
    with ClaudeHarness(claude, tmp_path, model) as harness:
        task = harness.end_of(harness.submit())
        assert (task.status, task.failures.total, task.agent.attempt) == (TaskStatus.COMPLETED, 0, 2)
        assert harness.steps(task) == STEPS


@pytest.mark.long
@pytest.mark.parametrize(
    ("turn", "told"),
    [
        ("ANALYSIS", "the turn ended without any work: no tool was used and no file was left"),
        ("IMPLEMENTATION 2", "no new commit was made for this step"),
    ],
)
def test_a_turn_without_work_fails_its_gate_and_is_told_so(claude: Path, tmp_path: Path, turn: str, told: str) -> None:
    with ClaudeHarness(claude, tmp_path, Roles(idle=frozenset({turn}))) as harness:
        task = harness.end_of(harness.submit())
        harness.assert_done_once(task)
        assert [prompt for prompt in harness.prompts() if told in prompt.partition("Still missing")[2]]
        assert len(harness.prompts()) == 7


@pytest.mark.long
def test_a_turn_that_takes_too_long_is_interrupted_and_resumed(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHarness(
        claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2"), turn_timeout=15.0
    ) as harness:
        task = harness.end_of(harness.submit())
        harness.assert_done_once(task)
        assert [entry.type for entry in task.failures.entries] == ["turn_timeout"]
        assert_resumed(harness, task)


@pytest.mark.long
def test_what_an_agent_left_in_the_background_ends_with_it(claude: Path, tmp_path: Path) -> None:
    leave = "setsid sh -c 'sleep 1000' >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 &"
    with ClaudeHarness(claude, tmp_path, running_first(leave, "IMPLEMENTATION 3")) as harness:
        harness.assert_done_once(harness.end_of(harness.submit()))


def test_an_agent_killed_again_and_again_before_its_first_answer_begins_anew(claude: Path, tmp_path: Path) -> None:
    asked: queue.Queue[threading.Event] = queue.Queue()

    def model(scene: Scene) -> Reply:
        if len(harness.prompts()) <= 2:
            killed = threading.Event()
            asked.put(killed)
            killed.wait(PATIENCE)
        return Roles()(scene)

    with ClaudeHarness(claude, tmp_path, model) as harness:
        name = harness.submit()
        for _ in range(2):
            killed = asked.get(timeout=PATIENCE)
            kill_agent(harness, name)
            killed.set()
        task = harness.end_of(name)
        assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
        assert harness.steps(task) == STEPS
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"] * 2


@pytest.mark.long
def test_an_agent_whose_holder_is_killed_is_resumed_in_its_session(
    claude: Path, tmp_path: Path, ticker: Ticker
) -> None:
    with ClaudeHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        pid = harness.client.task(name).agent.pid
        assert pid
        parent = psutil.Process(pid).parent()
        assert parent
        parent.kill()
        task = harness.end_of(name)
        ticker.assert_is_silent()
        harness.assert_done_once(task)
        assert_resumed(harness, task)
