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
from tests.acceptance.claude_house import ClaudeHouse, Ticker
from tests.acceptance.claude_roles import Roles, bash
from tests.acceptance.house import House, Json, line_count
from tests.acceptance.test_asking import ASKING, QUESTION, QUESTIONS, block
from tests.fakes.playwright import Use
from tests.looking import files_with

SOON = 0.2
"""Seconds after which what stands still is ended."""
ONE_QUESTION: Json = {"questions": QUESTIONS["questions"][:1]}
STRIPE: Json = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the payment tests.", "required": True}
SAY_HASH = 'printf %s "$STRIPE_KEY" | sha256sum'


def wait_until_parked(house: House, task: str) -> None:
    """Wait until nothing of the task runs, and it waits for its answer all the same."""
    house.wait_until(task, lambda now: now.waiting and now.run is None)
    assert house.nothing_is_left()
    assert house.client.task(task).agent.status is AgentStatus.WAITING_QUESTION


def sessions(house: House, task: str, attempts: int) -> list[tuple[str, str]]:
    """Of each attempt its session, and whether that was resumed."""
    folders = [house.folder(task) / f"agents/{number}" for number in range(1, attempts + 1)]
    envs = [orjson.loads((folder / "spec.json").read_bytes())["env"] for folder in folders]
    return [(env["ORCHESTRATOR_SESSION_ID"], env["ORCHESTRATOR_RESUME"]) for env in envs]


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_parked_agent_costs_nothing_and_goes_on_with_the_answer_in_its_session(tmp_path: Path, killed: bool) -> None:
    ticks = tmp_path / "ticks"
    turn = [{"question": QUESTION}, {"tick": {"file": str(ticks), "seconds": 600}}]
    with House(tmp_path, {"PLANNING": [turn]}, park_after=SOON) as house:
        task = house.submit(**ASKING)
        wait_until_parked(house, task)
        if killed:
            house.kill()
            house.start()
            assert not house.survivors()
        ask = house.client.task(task).waiting[0]
        house.say("POST", f"/api/questions/{ask.id}/answer", {"answer": "Latin"})
        ended = house.wait_for_end(task)
        first, second, implementer = sessions(house, task, attempts=3)
        assert second == (first[0], "1")
        assert implementer[1] == "0"
        assert "Which alphabet? — Latin" in house.turn_texts(task, 2)[0]
        assert ended.failures.total == 0
        assert line_count(ticks) < 600


def test_a_parked_request_is_answered_by_a_turn_and_when_asked_again_by_the_recorded_answer(tmp_path: Path) -> None:
    got = tmp_path / "got"
    ask: Json = {"tool": "AskUserQuestion", "input": ONE_QUESTION}
    scenario: Json = {"PLANNING": [{"ask": ask}, {"ask": {**ask, "file": str(got)}}]}
    with House(tmp_path, scenario, park_after=SOON) as house:
        task = house.submit(**ASKING)
        wait_until_parked(house, task)
        waiting = house.client.task(task).waiting[0]
        house.say("POST", f"/api/questions/{waiting.id}/answer", {"answer": "All"})
        ended = house.wait_for_end(task)
        assert "Which alphabet? — All" in house.turn_texts(task, 2)[0]
        assert json.loads(got.read_text())["updatedInput"]["answers"] == {"Which alphabet?": "All"}
        assert [(one.status, one.answer) for one in ended.requests] == [(RequestStatus.ANSWERED, "All")] * 2
        assert ended.failures.total == 0


def test_a_paused_task_is_parked_and_resumed_as_well(tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    with House(tmp_path, {"PLANNING": [{"tick": {"file": str(ticks), "seconds": 600}}]}, park_after=SOON) as house:
        task = house.submit()
        house.wait_for("a tick", lambda: line_count(ticks))
        house.client.request(task, "pause")
        house.wait_until(task, lambda now: now.paused and now.run is None)
        assert house.nothing_is_left()
        house.client.request(task, "resume")
        ended = house.wait_for_end(task)
        assert ended.failures.total == 0
        assert sessions(house, task, attempts=2)[1][1] == "1"


def hiding_places(root: Path, value: str) -> list[str]:
    """The files below a folder in which a value stands, plain or thinly disguised."""
    return files_with(root, value.encode(), base64.b64encode(value.encode()), value.encode().hex().encode())


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_provided_value_is_in_the_agent_s_environment_and_in_no_file(tmp_path: Path, killed: bool) -> None:
    value, seen = token_hex(20), tmp_path / "seen"
    turn = [{"dependency": STRIPE}, {"tick": {"file": str(tmp_path / "ticks"), "seconds": 600}}]
    with House(tmp_path, {"PLANNING": [turn, {"run": f"{SAY_HASH} > {seen}"}]}) as house:
        task = house.submit()
        ask = house.wait_until_it_asks(task)
        assert house.client.task(task).agent.status is AgentStatus.WAITING_DEPENDENCY
        house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        if killed:
            house.kill()
            house.start()
        ended = house.wait_for_end(task)
        assert seen.read_text().split()[0] == sha256(value.encode()).hexdigest()
        (told,) = [text for text in house.turn_texts(task, 2) if "Answers to what you asked" in text]
        assert "provided, as the environment variable STRIPE_KEY" in told
        assert ended.requests[0].status is RequestStatus.PROVIDED
        assert hiding_places(house.root, value) == []
        assert sessions(house, task, attempts=2)[1][1] == "1"


def test_a_dependency_that_is_refused_is_told_of_with_the_reason_and_nothing_is_started_anew(tmp_path: Path) -> None:
    with House(tmp_path, {"PLANNING": [[{"dependency": STRIPE}, {"no_work": True}]]}) as house:
        task = house.submit()
        ask = house.wait_until_it_asks(task)
        house.say("POST", f"/api/dependencies/{ask.id}/reject", {"reason": "Use the mock."})
        assert house.wait_for_end(task).agent.attempt == 2
        assert "refused: Use the mock.; do without it" in "".join(house.turn_texts(task, 1))


@pytest.mark.claude
def test_the_real_claude_is_parked_while_it_asks_and_goes_on_with_the_answer(tmp_path: Path, claude: Path) -> None:
    wish = Use("AskUserQuestion", ONE_QUESTION)
    with ClaudeHouse(claude, tmp_path, Roles(before={"PLANNING": wish}), park_after=SOON) as house:
        task = house.submit(**ASKING)
        parked = house.wait_for(task, lambda now: now.waiting and now.run is None)
        assert house.survivors() == []
        house.say("POST", f"/api/questions/{parked.waiting[0].id}/answer", {"answer": "All"})
        ended = house.end_of(task)
        house.assert_done_once(ended)
        first, second, *_ = house.sessions(ended)
        assert second == first.replace("--session-id", "--resume")
        assert any("Which alphabet? — All" in prompt for prompt in house.prompts())
        assert ended.failures.total == 0


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_that_asks_again_after_it_was_parked_gets_the_recorded_answer(
    tmp_path: Path, claude: Path
) -> None:
    wish = Use("AskUserQuestion", ONE_QUESTION)
    roles = Roles(before={"PLANNING": wish}, after={"PLANNING": wish})
    with ClaudeHouse(claude, tmp_path, roles, park_after=SOON) as house:
        task = house.submit(**ASKING)
        parked = house.wait_for(task, lambda now: now.waiting and now.run is None)
        house.say("POST", f"/api/questions/{parked.waiting[0].id}/answer", {"answer": "All"})
        ended = house.end_of(task)
        house.assert_done_once(ended)
        heard = [result.text for scene in house.api.scenes for result in scene.results]
        assert any('"Which alphabet?"="All"' in text for text in heard)


@pytest.mark.long
@pytest.mark.claude
def test_the_real_claude_finds_what_was_provided_in_its_environment_alone(
    tmp_path: Path, claude: Path, ticker: Ticker
) -> None:
    value = token_hex(20)
    command = Use("Bash", {"command": ticker.command, "description": "work"}, text=block(STRIPE, "DEPENDENCY_REQUEST"))
    roles = Roles(before={"PLANNING": command}, after={"PLANNING": bash(SAY_HASH)})
    with ClaudeHouse(claude, tmp_path, roles) as house:
        task = house.submit()
        ask = house.wait_until_it_asks(task)
        ticker.assert_is_silent()
        house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        ended = house.end_of(task)
        house.assert_done_once(ended)
        heard = [result.text for scene in house.api.scenes for result in scene.results]
        assert any(sha256(value.encode()).hexdigest() in text for text in heard)
        assert hiding_places(house.root, value) == []
