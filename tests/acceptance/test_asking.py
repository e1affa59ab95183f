"""Agents ask, by a block in their text or by the CLI's own protocol; they stand still, are answered, and go on."""

import json
from pathlib import Path

import pytest

from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestStatus, Subject
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness, Json, line_count
from tests.acceptance.test_freezing import assert_stands_still
from tests.fakes.scripted_model import Use

QUESTION: Json = {
    "category": "choice",
    "question": "Which alphabet?",
    "options": ["Latin", "All"],
    "default": "All",
    "required": False,
}
QUESTIONS: Json = {
    "questions": [
        {
            "question": "Which alphabet?",
            "header": "Alphabet",
            "options": [{"label": "Latin", "description": "a to z"}, {"label": "All", "description": "of Unicode"}],
            "multiSelect": False,
        },
        {
            "question": "How long?",
            "header": "Length",
            "options": [{"label": "Short", "description": "20"}, {"label": "Long", "description": "200"}],
            "multiSelect": False,
        },
    ]
}
ASKING: Json = {"autonomy": Autonomy.INTERACTIVE}


def block(fields: Json, kind: str = "USER_QUESTION") -> str:
    """A block in an agent's text."""
    return f"[{kind}_JSON]\n{json.dumps(fields)}\n[/{kind}_JSON]"


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_question_in_a_block_freezes_its_agent_until_it_is_answered_in_the_next_turn(
    tmp_path: Path, killed: bool
) -> None:
    ticks = tmp_path / "ticks"
    turn = [{"question": QUESTION}, {"tick": {"file": str(ticks), "seconds": 2}}, {"no_work": True}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}) as harness:
        task = harness.submit(**ASKING)
        ask = harness.wait_until_it_asks(task)
        assert (ask.text, ask.options, ask.deadline is not None) == ("Which alphabet?", ("Latin", "All"), True)
        assert harness.client.task(task).agent.status is AgentStatus.WAITING_QUESTION
        assert_stands_still(harness, task, ticks)
        if killed:
            harness.kill()
            harness.start()
            harness.wait_until_frozen(task)
            assert_stands_still(harness, task, ticks)
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": "latin"})
        ended = harness.wait_for_end(task)
        assert ended.requests[0].answer == "Latin"
        assert ended.agent.attempt == 2, "the planner's process went on"
        (told,) = [text for text in harness.turn_texts(task, 1) if "Answers to what you asked" in text]
        assert "Which alphabet? — Latin" in told
        assert line_count(ticks) == 20
        assert ended.failures.total == 0
        assert harness.nothing_is_left()


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_questions_in_a_request_of_the_cli_are_answered_in_the_turn_that_asked(tmp_path: Path, killed: bool) -> None:
    got = tmp_path / "got"
    ask: Json = {"tool": "AskUserQuestion", "input": QUESTIONS, "file": str(got)}
    with DaemonHarness(tmp_path, {"PLANNING": [{"ask": ask}]}) as harness:
        task = harness.submit(**ASKING)
        first = harness.wait_until_it_asks(task)
        assert len(harness.client.task(task).waiting) == 2
        harness.request("POST", f"/api/questions/{first.id}/answer", {"answer": "All"})
        harness.wait_until_frozen(task)
        if killed:
            harness.kill()
            harness.start()
        second = harness.client.task(task).waiting[0]
        harness.request("POST", f"/api/questions/{second.id}/answer", {"answer": "Short"})
        ended = harness.wait_for_end(task)
        answers = {"Which alphabet?": "All", "How long?": "Short"}
        assert json.loads(got.read_text()) == {"behavior": "allow", "updatedInput": {**QUESTIONS, "answers": answers}}
        assert not [text for text in harness.turn_texts(task, 1) if "Answers to what you asked" in text]
        assert [one.status for one in ended.requests] == [RequestStatus.ANSWERED, RequestStatus.ANSWERED]
        assert ended.agent.attempt == 2


def test_the_question_of_an_agent_that_dies_stands_and_its_successor_is_told_the_answer(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [{"ask": {"tool": "AskUserQuestion", "input": QUESTIONS}}]}) as harness:
        task = harness.submit(**ASKING)
        harness.wait_until_it_asks(task)
        harness.end_run(task)
        waiting = harness.wait_until(task, lambda now: now.run is None).waiting
        assert [one.text for one in waiting] == ["Which alphabet?", "How long?"]
        for one, text in zip(waiting, ("Latin", "Long"), strict=True):
            harness.request("POST", f"/api/questions/{one.id}/answer", {"answer": text})
        ended = harness.wait_for_end(task)
        (told, *_) = harness.turn_texts(task, 2)
        assert "Which alphabet? — Latin" in told
        assert "How long? — Long" in told
        assert ended.failures.total == 0


def test_an_answer_that_was_given_to_an_agent_which_died_of_it_is_told_to_its_successor(tmp_path: Path) -> None:
    turn = [{"ask": {"tool": "AskUserQuestion", "input": QUESTIONS}}, {"die_mid_line": True}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}) as harness:
        task = harness.submit(**ASKING)
        harness.wait_until_it_asks(task)
        for one in harness.client.task(task).waiting:
            harness.request("POST", f"/api/questions/{one.id}/answer", {"answer": one.options[0]})
        ended = harness.wait_for_end(task)
        assert "Which alphabet? — Latin" in harness.turn_texts(task, 2)[0]
        assert [one.status for one in ended.requests] == [RequestStatus.ANSWERED] * 2


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_a_person_allows_or_denies_a_tool(tmp_path: Path, decision: str) -> None:
    got, wanted = tmp_path / "got", {"command": "apt-get install cowsay"}
    with DaemonHarness(
        tmp_path, {"PLANNING": [{"ask": {"tool": "Bash", "input": wanted, "file": str(got)}}]}
    ) as harness:
        task = harness.submit(**ASKING)
        ask = harness.wait_until_it_asks(task)
        assert (ask.subject, ask.name, ask.text) == (Subject.PERMISSION, "Bash", "command: apt-get install cowsay")
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": decision})
        harness.wait_for_end(task)
        heard = json.loads(got.read_text())
        assert heard["behavior"] == decision
        assert heard.get("updatedInput") == (wanted if decision == "allow" else None)


def test_a_plan_is_sent_back_with_what_is_wanted_and_then_approved(tmp_path: Path) -> None:
    got = tmp_path / "got"
    asks = [{"ask": {"tool": "ExitPlanMode", "input": {"plan": plan}, "file": str(got)}} for plan in ("# A", "# B")]
    with DaemonHarness(tmp_path, {"PLANNING": [asks]}) as harness:
        task = harness.submit(**ASKING)
        first = harness.wait_until_it_asks(task)
        assert (first.subject, first.text) == (Subject.PLAN, "# A")
        assert harness.client.task(task).agent.status is AgentStatus.WAITING_REVIEW
        harness.request("POST", f"/api/reviews/{first.id}/request-changes", {"text": "Test it first."})
        harness.wait_until(task, lambda now: now.waiting and now.waiting[0].text == "# B")
        assert json.loads(got.read_text()) == {"behavior": "deny", "message": "Test it first."}
        second = harness.wait_until_it_asks(task)
        harness.request("POST", f"/api/reviews/{second.id}/approve", {"digest": second.digest})
        harness.wait_for_end(task)
        assert json.loads(got.read_text())["behavior"] == "allow"


def with_review(root: Path) -> Json:
    """Settings under which the stage PLANNING of the pipeline `full` is reviewed."""
    folder = root / "pipelines"
    folder.mkdir()
    text = (Path(__file__).parents[2] / "config/pipelines/full.toml").read_text()
    (folder / "full.toml").write_text(text.replace("[stages.PLANNING]\n", "[stages.PLANNING]\nreview = true\n"))
    return {"folders": {"pipelines": [str(folder)]}}


def test_a_stage_is_changed_in_the_same_session_and_approved_over_a_restart(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, **with_review(tmp_path)) as harness:
        task = harness.submit(**ASKING)
        review = harness.wait_until_it_asks(task)
        assert (review.subject, review.stage) == (Subject.STAGE, "PLANNING")
        assert "plan.md" in review.text
        assert harness.client.task(task).status is TaskStatus.REVIEW
        harness.request("POST", f"/api/reviews/{review.id}/request-changes", {"text": "Two steps are enough."})
        again = harness.wait_until(task, lambda now: now.waiting and now.waiting[0].id != review.id).waiting[0]
        (asked,) = [text for text in harness.turn_texts(task, 1) if "A person asks for changes" in text]
        assert "Two steps are enough." in asked
        harness.kill()
        harness.start()
        assert harness.client.task(task).status is TaskStatus.REVIEW
        harness.request("POST", f"/api/reviews/{again.id}/approve", {"digest": again.digest})
        ended = harness.wait_for_end(task)
        assert ended.agent.attempt == 2, "the planner's process went on"
        assert ended.failures.total == 0


def test_nobody_is_asked_for_a_review_of_a_task_that_goes_by_itself(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, **with_review(tmp_path)) as harness:
        ended = harness.wait_for_end(harness.submit())
        assert [(one.status, one.answered_by) for one in ended.requests] == [(RequestStatus.APPROVED, "policy")]


def test_a_question_that_nobody_answers_in_time_gets_its_default(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [{"question": QUESTION}]}, people={"question_timeout": 0.5}) as harness:
        task = harness.submit(**ASKING)
        ended = harness.wait_for_end(task)
        assert (ended.requests[0].status, ended.requests[0].answer, ended.requests[0].answered_by) == (
            RequestStatus.ANSWERED,
            "All",
            "policy",
        )
        assert "Which alphabet? — All" in "".join(harness.turn_texts(task, 1))


def test_a_permission_that_nobody_gives_in_time_is_denied(tmp_path: Path) -> None:
    got = tmp_path / "got"
    ask: Json = {"tool": "WebFetch", "input": {"url": "https://example.org"}, "file": str(got)}
    with DaemonHarness(tmp_path, {"PLANNING": [{"ask": ask}]}, people={"question_timeout": 0.5}) as harness:
        harness.wait_for_end(harness.submit(**ASKING))
        assert json.loads(got.read_text())["behavior"] == "deny"


def test_a_task_that_goes_by_itself_is_answered_without_standing_still(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"PLANNING": [{"question": QUESTION}]}) as harness:
        task = harness.submit()
        ended = harness.wait_for_end(task)
        assert ended.requests[0].answer == "All"
        assert harness.journal(task, "RunFrozen") == []
        assert "Which alphabet? — All" in "".join(harness.turn_texts(task, 1))


def test_a_block_that_nobody_understands_is_told_of_once_and_then_costs_a_try(tmp_path: Path) -> None:
    broken = {"malformed": True}
    with DaemonHarness(tmp_path, {"PLANNING": [broken, broken]}) as harness:
        task = harness.submit()
        ended = harness.wait_for_end(task)
        told = [text for text in harness.turn_texts(task, 1) if "USER_QUESTION" in text]
        assert len(told) == 2
        assert ended.failures.total == 0


def test_an_agent_that_wants_to_be_paused_and_tried_again_is_left_alone_until_somebody_resumes_it(
    tmp_path: Path,
) -> None:
    ticks = tmp_path / "ticks"
    trouble = {"type": "recoverable", "message": "The build server is down.", "recovery": "pause_and_retry"}
    turn = [{"trouble": trouble}, {"tick": {"file": str(ticks), "seconds": 1}}]
    with DaemonHarness(tmp_path, {"PLANNING": [turn]}) as harness:
        task = harness.submit()
        held = harness.wait_until_frozen(task)
        assert held.agent.blocked_by is PauseReason.SERVICE
        assert held.retry_at is not None
        assert_stands_still(harness, task, ticks)
        harness.client.request(task, "resume")
        assert harness.wait_for_end(task).failures.total == 0


@pytest.mark.claude
@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_real_claude_is_frozen_by_its_block_and_told_the_answer_in_the_same_session(
    tmp_path: Path, claude: Path, ticker: Ticker, killed: bool
) -> None:
    command = Use("Bash", {"command": ticker.command, "description": "work"}, text=block(QUESTION))
    with ClaudeHarness(claude, tmp_path, Roles(before={"PLANNING": command})) as harness:
        task = harness.submit(**ASKING)
        ask = harness.wait_until_it_asks(task)
        ticker.assert_is_silent()
        if killed:
            harness.kill()
            harness.start()
            ticker.assert_is_silent()
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": "Latin"})
        ticker.let_go()
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        assert len(harness.sessions(ended)) == 2
        assert any("Which alphabet? — Latin" in prompt for prompt in harness.prompts())


@pytest.mark.claude
@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_real_claude_gets_the_answers_to_its_own_question_tool(tmp_path: Path, claude: Path, killed: bool) -> None:
    with ClaudeHarness(claude, tmp_path, Roles(before={"PLANNING": Use("AskUserQuestion", QUESTIONS)})) as harness:
        task = harness.submit(**ASKING)
        first = harness.wait_until_it_asks(task)
        harness.request("POST", f"/api/questions/{first.id}/answer", {"answer": "Latin"})
        if killed:
            harness.kill()
            harness.start()
        second = harness.wait_until_it_asks(task)
        harness.request("POST", f"/api/questions/{second.id}/answer", {"answer": "Short"})
        ended = harness.end_of(task)
        harness.assert_done_once(ended)
        heard = [result.text for scene in harness.api.scenes for result in scene.results]
        assert any('"Which alphabet?"="Latin", "How long?"="Short"' in text for text in heard)
        assert len(harness.sessions(ended)) == 2


@pytest.mark.claude
@pytest.mark.parametrize("decision", ["allow", pytest.param("deny", marks=pytest.mark.long)])
def test_the_real_claude_may_write_outside_its_fence_only_if_somebody_allows_it(
    tmp_path: Path, claude: Path, decision: str
) -> None:
    outside = tmp_path / "outside.txt"
    wish = Use("Write", {"file_path": str(outside), "content": "x"})
    with ClaudeHarness(claude, tmp_path, Roles(before={"PLANNING": wish})) as harness:
        task = harness.submit(**ASKING)
        ask = harness.wait_until_it_asks(task)
        assert (ask.subject, ask.name) == (Subject.PERMISSION, "Write")
        assert str(outside) in ask.text
        assert not outside.exists()
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": decision})
        harness.assert_done_once(harness.end_of(task))
        assert outside.exists() == (decision == "allow")
