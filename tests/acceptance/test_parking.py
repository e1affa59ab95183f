"""What stands still for long is ended, its session kept; its answer starts it again. What is provided stays hidden."""

import base64
import json
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import orjson
import pytest

from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.user_requests import RequestStatus
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import Roles, bash
from tests.acceptance.harness import DaemonHarness, Json, line_count
from tests.acceptance.test_asking import ASKING, QUESTION, QUESTIONS, block
from tests.fakes.scripted_model import Use
from tests.folder_search import files_with

SOON = 0.2
"""Seconds after which what stands still is ended."""
ONE_QUESTION: Json = {"questions": QUESTIONS["questions"][:1]}
STRIPE: Json = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the payment tests.", "required": True}
SAY_HASH = 'printf %s "$STRIPE_KEY" | sha256sum'


def wait_until_parked(harness: DaemonHarness, task: str) -> None:
    """Wait until nothing of the task runs, and it waits for its answer all the same."""
    harness.wait_until(task, lambda now: now.waiting and now.run is None)
    assert harness.nothing_is_left()
    assert harness.client.task(task).agent.status is AgentStatus.WAITING_QUESTION


def sessions(harness: DaemonHarness, task: str, attempts: int) -> list[tuple[str, str]]:
    """Of each attempt its session, and whether that was resumed."""
    folders = [harness.folder(task) / f"agents/{number}" for number in range(1, attempts + 1)]
    envs = [orjson.loads((folder / "spec.json").read_bytes())["env"] for folder in folders]
    return [(env["ORCHESTRATOR_SESSION_ID"], env["ORCHESTRATOR_RESUME"]) for env in envs]


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_parked_agent_costs_nothing_and_goes_on_with_the_answer_in_its_session(tmp_path: Path, killed: bool) -> None:
    ticks = tmp_path / "ticks"
    turn = [{"question": QUESTION}, {"tick": {"file": str(ticks), "seconds": 600}}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}, park_after=SOON) as harness:
        task = harness.submit(**ASKING)
        wait_until_parked(harness, task)
        if killed:
            harness.kill()
            harness.start()
            assert not harness.survivors()
        ask = harness.client.task(task).waiting[0]
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": "Latin"})
        ended = harness.wait_for_end(task)
        first, second, implementer = sessions(harness, task, attempts=3)
        assert second == (first[0], "1")
        assert implementer[1] == "0"
        assert "Which alphabet? — Latin" in harness.turn_texts(task, 2)[0]
        assert ended.failures.total == 0
        assert line_count(ticks) < 600


def test_a_parked_request_is_answered_by_a_turn_and_when_asked_again_by_the_recorded_answer(tmp_path: Path) -> None:
    got = tmp_path / "got"
    ask: Json = {"tool": "AskUserQuestion", "input": ONE_QUESTION}
    scenario: Json = {"PLANNING": [{"ask": ask}, {"ask": {**ask, "file": str(got)}}]}
    with DaemonHarness(tmp_path, scenario, park_after=SOON) as harness:
        task = harness.submit(**ASKING)
        wait_until_parked(harness, task)
        waiting = harness.client.task(task).waiting[0]
        harness.request("POST", f"/api/questions/{waiting.id}/answer", {"answer": "All"})
        ended = harness.wait_for_end(task)
        assert "Which alphabet? — All" in harness.turn_texts(task, 2)[0]
        assert json.loads(got.read_text())["updatedInput"]["answers"] == {"Which alphabet?": "All"}
        assert [(one.status, one.answer) for one in ended.requests] == [(RequestStatus.ANSWERED, "All")] * 2
        assert ended.failures.total == 0


def test_a_paused_task_is_parked_and_resumed_as_well(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(
        tmp_path, {"PLANNING": [{"tick": {"file": str(ticks), "seconds": 600}}]}, park_after=SOON
    ) as harness:
        task = harness.submit()
        harness.wait_for("a tick", lambda: line_count(ticks))
        harness.client.request(task, "pause")
        harness.wait_until(task, lambda now: now.paused and now.run is None)
        assert harness.nothing_is_left()
        harness.client.request(task, "resume")
        ended = harness.wait_for_end(task)
        assert ended.failures.total == 0
        assert sessions(harness, task, attempts=2)[1][1] == "1"


def hiding_places(root: Path, value: str) -> list[str]:
    """The files below a folder in which a value stands, plain or thinly disguised."""
    return files_with(root, value.encode(), base64.b64encode(value.encode()), value.encode().hex().encode())


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_provided_value_is_in_the_agent_s_environment_and_in_no_file(tmp_path: Path, killed: bool) -> None:
    value, seen = token_hex(20), tmp_path / "seen"
    turn = [{"dependency": STRIPE}, {"tick": {"file": str(tmp_path / "ticks"), "seconds": 600}}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn, {"run": f"{SAY_HASH} > {seen}"}]}) as harness:
        task = harness.submit()
        ask = harness.wait_until_it_asks(task)
        assert harness.client.task(task).agent.status is AgentStatus.WAITING_DEPENDENCY
        harness.request("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        if killed:
            harness.kill()
            harness.start()
        ended = harness.wait_for_end(task)
        assert seen.read_text().split()[0] == sha256(value.encode()).hexdigest()
        (told,) = [text for text in harness.turn_texts(task, 2) if "Answers to what you asked" in text]
        assert "provided, as the environment variable STRIPE_KEY" in told
        assert ended.requests[0].status is RequestStatus.PROVIDED
        assert hiding_places(harness.root, value) == []
        assert sessions(harness, task, attempts=2)[1][1] == "1"


def test_a_dependency_that_is_refused_is_told_of_with_the_reason_and_nothing_is_started_anew(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [[{"dependency": STRIPE}, {"no_work": True}]]}) as harness:
        task = harness.submit()
        ask = harness.wait_until_it_asks(task)
        harness.request("POST", f"/api/dependencies/{ask.id}/reject", {"reason": "Use the mock."})
        assert harness.wait_for_end(task).agent.attempt == 2
        assert "refused: Use the mock.; do without it" in "".join(harness.turn_texts(task, 1))


@pytest.mark.claude
def test_the_real_claude_is_parked_while_it_asks_and_goes_on_with_the_answer(tmp_path: Path, claude: Path) -> None:
    wish = Use("AskUserQuestion", ONE_QUESTION)
    with ClaudeHarness(claude, tmp_path, Roles(before={"PLANNING": wish}), park_after=SOON) as harness:
        task = harness.submit(**ASKING)
        parked = harness.wait_for(task, lambda now: now.waiting and now.run is None)
        assert harness.survivors() == []
        harness.request("POST", f"/api/questions/{parked.waiting[0].id}/answer", {"answer": "All"})
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        first, second, *_ = harness.sessions(ended)
        assert second == first.replace("--session-id", "--resume")
        assert any("Which alphabet? — All" in prompt for prompt in harness.prompts())
        assert ended.failures.total == 0


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_that_asks_again_after_it_was_parked_gets_the_recorded_answer(
    tmp_path: Path, claude: Path
) -> None:
    wish = Use("AskUserQuestion", ONE_QUESTION)
    roles = Roles(before={"PLANNING": wish}, after={"PLANNING": wish})
    with ClaudeHarness(claude, tmp_path, roles, park_after=SOON) as harness:
        task = harness.submit(**ASKING)
        parked = harness.wait_for(task, lambda now: now.waiting and now.run is None)
        harness.request("POST", f"/api/questions/{parked.waiting[0].id}/answer", {"answer": "All"})
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        heard = [result.text for scene in harness.api.scenes for result in scene.results]
        assert any('"Which alphabet?"="All"' in text for text in heard)


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_finds_what_was_provided_in_its_environment_alone(
    tmp_path: Path, claude: Path, ticker: Ticker
) -> None:
    value = token_hex(20)
    command = Use("Bash", {"command": ticker.command, "description": "work"}, text=block(STRIPE, "DEPENDENCY_REQUEST"))
    roles = Roles(before={"PLANNING": command}, after={"PLANNING": bash(SAY_HASH)})
    with ClaudeHarness(claude, tmp_path, roles) as harness:
        task = harness.submit()
        ask = harness.wait_until_it_asks(task)
        ticker.assert_is_silent()
        harness.request("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        heard = [result.text for scene in harness.api.scenes for result in scene.results]
        assert any(sha256(value.encode()).hexdigest() in text for text in heard)
        assert hiding_places(harness.root, value) == []
