"""The whole program with the real claude CLI as its agents, against a scripted Messages API on loopback."""

import os
import signal
from pathlib import Path

import pytest

from orchestrator.api.views import TaskView
from orchestrator.core.model import Process, TaskStatus, Verdict
from orchestrator.installation import ClaudeMissing, find_claude
from tests.acceptance.claude_house import ClaudeHouse, Ticker, state_of
from tests.acceptance.claude_roles import Roles, bash
from tests.fakes.playwright import Fail, Playwright

pytestmark = [pytest.mark.claude]

STEPS = [
    "Implement slugify in textkit",
    "Test slugify with spaces and punctuation",
    "Document slugify in README.md",
]


REPAIRS = ["Repair how slugify joins words", "Test slugify with hyphens at its edges"]
WATCHED = 0.8
"""Seconds in which a command that runs ticks several times."""

OVERLOADED = Fail(529, "overloaded_error", "Overloaded")
REFUSED = Fail(401, "authentication_error", "invalid x-api-key")


@pytest.fixture(scope="module")
def claude() -> Path:
    try:
        return find_claude("", os.environ.get("PATH"))
    except ClaudeMissing as missing:
        pytest.skip(f"NOT TESTED WITH THE REAL CLI: {missing}")


@pytest.fixture
def ticker(tmp_path: Path) -> Ticker:
    return Ticker(tmp_path)


def ticking(ticker: Ticker, turn: str) -> Roles:
    """Roles that run the ticking command first in that turn."""
    return Roles(before={turn: bash(ticker.command)})


def failing(count: int, reply: Fail, roles: Roles) -> Playwright:
    """Roles behind an API that fails so many times first."""
    left = [reply] * count
    return lambda scene: left.pop() if left else roles(scene)


def steps_of(house: ClaudeHouse, task: TaskView) -> list[str]:
    return [subject.partition(": ")[2] for subject in house.commits(task)]


def assert_done_once(house: ClaudeHouse, task: TaskView) -> None:
    """The whole job was done, nothing of it twice, and nothing of it runs any more."""
    assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
    assert steps_of(house, task) == STEPS
    assert [result.verdict for result in task.results.values()] == [Verdict.PASS]
    assert house.played_twice() == []
    assert house.survivors() == []


def frozen(house: ClaudeHouse, ticker: Ticker, task: str) -> TaskView:
    """The task, paused in the middle of the ticking command."""
    house.until(lambda: ticker.count >= 3, "the agent's command ticks")
    house.client.ask(task, "pause")
    return house.wait_for(task, lambda now: now.run and now.run.process is Process.FROZEN)


def assert_stands_still(house: ClaudeHouse, ticker: Ticker, task: TaskView) -> None:
    processes = house.processes_of(task)
    assert len({os.getsid(process.pid) for process in processes}) > 1, "the command has a session of its own"
    assert {state_of(process) for process in processes} == {"T"}
    assert ticker.ticks_within(WATCHED) == 0


def test_a_ticket_becomes_a_tested_and_delivered_branch(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, Roles()) as house:
        task = house.end_of(house.submit())
        assert_done_once(house, task)
        assert [session.partition("=")[0] for session in house.sessions(task)] == ["--session-id"] * 2
        assert task.failures.total == 0


def test_a_failed_evaluation_is_explained_and_mended(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, Roles(careless=True)) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.cycle) == (TaskStatus.COMPLETED, 2)
        assert steps_of(house, task) == STEPS + REPAIRS
        assert [prompt.split()[1] for prompt in house.prompts()].count("EVALUATION") == 1
        repair = (Path(task.folder) / "plan-fix-1.md").read_text()
        assert repair.startswith("## Failure")
        assert [(entry.state, entry.exit_code) for entry in task.failures.entries] == [("EVALUATION", 1)]
        assert house.survivors() == []


def test_a_frozen_command_stops_ticking_and_goes_on_after(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, ticking(ticker, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        task = frozen(house, ticker, name)
        assert_stands_still(house, ticker, task)
        house.client.ask(name, "resume")
        stood_at = ticker.count
        house.until(lambda: ticker.count > stood_at, "the command goes on")
        ticker.let_go()
        assert_done_once(house, house.end_of(name))


def test_a_daemon_killed_in_mid_turn_goes_on_with_the_same_agent(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, ticking(ticker, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        house.until(lambda: ticker.count, "the agent's command ticks")
        house.kill()
        assert ticker.ticks_within(WATCHED) > 1
        house.start()
        ticker.let_go()
        task = house.end_of(name)
        assert_done_once(house, task)
        assert [session.partition("=")[0] for session in house.sessions(task)] == ["--session-id"] * 2


def test_a_turn_that_ends_while_the_daemon_is_away_counts(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, ticking(ticker, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        house.until(lambda: ticker.count, "the agent's command ticks")
        task = house.client.task(name)
        house.kill()
        ticker.let_go()
        output = Path(task.folder) / "agents/2/stdout.jsonl"
        house.until(lambda: output.read_bytes().count(b'"type":"result"') == 2, "the turn has its result")
        house.start()
        assert_done_once(house, house.end_of(name))


def test_a_daemon_killed_while_an_agent_is_frozen_finds_it_frozen(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, ticking(ticker, "IMPLEMENTATION 1")) as house:
        name = house.submit()
        task = frozen(house, ticker, name)
        house.kill()
        assert_stands_still(house, ticker, task)
        house.start()
        task = house.client.task(name)
        assert task.paused
        assert_stands_still(house, ticker, task)
        house.client.ask(name, "resume")
        stood_at = ticker.count
        house.until(lambda: ticker.count > stood_at, "the command goes on")
        ticker.let_go()
        assert_done_once(house, house.end_of(name))


def test_an_agent_killed_in_mid_tool_is_resumed_in_its_session(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with ClaudeHouse(claude, tmp_path, ticking(ticker, "IMPLEMENTATION 2")) as house:
        name = house.submit()
        house.until(lambda: ticker.count, "the agent's command ticks")
        pid = house.client.task(name).agent.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        task = house.end_of(name)
        assert ticker.ticks_within(WATCHED) == 0
        assert_done_once(house, task)
        planner, implementer, resumed = house.sessions(task)
        assert implementer.startswith("--session-id=")
        assert resumed == implementer.replace("--session-id=", "--resume=")
        assert planner.partition("=")[2] not in resumed
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"]


def test_a_refused_key_is_a_matter_for_a_person(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, lambda _: REFUSED, {"CLAUDE_CODE_MAX_RETRIES": "1"}) as house:
        task = house.end_of(house.submit())
        assert task.status is TaskStatus.BLOCKED
        assert len(house.sessions(task)) == 1
        assert "Invalid API key" in str(task.block_reason)
        assert "orchestrator doctor" in str(task.block_reason)
        assert house.survivors() == []


def test_an_overload_that_the_cli_waits_out_is_no_failure(claude: Path, tmp_path: Path) -> None:
    with ClaudeHouse(claude, tmp_path, failing(2, OVERLOADED, Roles())) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.failures.total) == (TaskStatus.COMPLETED, 0)
        assert steps_of(house, task) == STEPS


def test_an_overload_that_lasts_costs_an_attempt_and_not_the_task(claude: Path, tmp_path: Path) -> None:
    playwright = failing(3, OVERLOADED, Roles())
    with ClaudeHouse(claude, tmp_path, playwright, {"CLAUDE_CODE_MAX_RETRIES": "1"}) as house:
        task = house.end_of(house.submit())
        assert (task.status, task.failures.total) == (TaskStatus.COMPLETED, 1)
        assert steps_of(house, task) == STEPS
        first, resumed, _ = house.sessions(task)
        assert resumed == first.replace("--session-id=", "--resume=")


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
        assert_done_once(house, task)
        assert [prompt for prompt in house.prompts() if told in prompt.partition("Still missing")[2]]
        assert len(house.prompts()) == 7
