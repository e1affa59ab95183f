"""A stage that verifies: another role's verdict, back to the author's own session, and ways on that guards choose."""

from datetime import datetime

import pytest

from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.events.events import AgentExited, Event
from orchestrator.core.family.verdict import Verdict, read_verdict
from orchestrator.core.task.agent import SessionOrigin
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.pipelines.pipeline_file import parse_pipeline
from tests.unit.playbook import Playbook, a_task, admitted, exited, finished, looked, ready, session, started

TEXT = """
name = "checked"
description = "An author and a verifier."
start = "BUILD"
branch = "{task}"

[budgets]
reworks_of_build = 2

[stages.BUILD]
work = "agent"
role = "implementer"
commits = true
resume_session = true
guards = [{ guard = "commit_count", at_least = 1 }]
next = "VERIFICATION"
choices = [{ next = "DONE", when = [{ guard = "commit_count", at_least = 3 }] }]

[stages.VERIFICATION]
work = "verify"
role = "reviewer"
answer = "verdict.txt"
guards = [{ guard = "file_exists", file = "verdict.txt" }]
next = "DONE"
on_fail = "BUILD"
budget = "reworks_of_build"

[stages.DONE]
work = "deliver"
"""
ONE_FAILED = '{"criteria": [{"id": "C2", "status": "failed", "details": "wrong"}]}'
FAILED = Verdict(passed=False, failures=("C2: the empty name is not refused",))


def checked() -> Pipeline:
    """Return the pipeline."""
    return parse_pipeline(TEXT, "checked.toml")


def ended(task: Task, at: datetime) -> Event:
    """The agent's process ended by itself, so that its session counts on when it is continued."""
    return AgentExited(at=at, attempt=task.agent.attempt, code=0, offset=task.agent.read_offset)


def built(*commits: str) -> Evidence:
    """Return what the author leaves."""
    return Evidence(head=commits[-1], commits=commits, subjects=("a change",) * len(commits))


def judged(verdict: Verdict | None, *problems: str) -> Evidence:
    """Return what the verifier leaves."""
    facts = FileFacts(chars=90, verdict=verdict, problems=problems)
    return Evidence(files={"verdict.txt": facts}, fresh=("verdict.txt",))


def verifying() -> Playbook:
    """Return a conversation about a task whose first build is being verified."""
    play = Playbook.submitted(a_task(), checked()) >> admitted << "prepare the workspace" >> ready
    play = play << "start implementer 1" >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s" >> session
    play = play >> finished() << "look at BUILD" >> looked(built("c1")) << "stop agents/1" >> ended
    play = play << "start reviewer 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s" >> session
    play = play >> finished() << "look at VERIFICATION"
    assert play
    return play


def sent_back() -> Playbook:
    """Return the conversation when the author works again."""
    play = verifying() >> looked(judged(FAILED)) << "stop agents/2" >> exited << "resume implementer 3"
    play = play >> started << "follow agents/3" << "turn 1 of 3" << "wake in 3600 s" >> session
    assert play
    return play


def test_a_passed_verification_leads_on() -> None:
    play = verifying() >> looked(judged(Verdict(passed=True))) << "stop agents/2" >> exited << "deliver c1"
    assert play.task.stage == "DONE"


def test_what_failed_goes_back_to_the_authors_own_session() -> None:
    play, own = sent_back(), verifying().task.sessions["implementer"]
    task = play.task
    assert (task.agent.session.id, task.agent.session.origin) == (own.id, SessionOrigin.CONTINUED)
    text = turn_text(play.pipeline, task)
    assert "What you have to change now:\n- C2: the empty name is not refused" in text
    assert "interrupted" not in text
    assert task.failures.entries[-1].summary == "C2: the empty name is not refused"


def test_a_continued_session_counts_only_what_it_uses_anew() -> None:
    before = sent_back()
    used = before.task.agent.usage.tokens
    after = before >> finished() << "look at BUILD"
    assert used == 2000
    assert after.task.agent.usage.tokens == 2000, "the CLI's total of the session is the same as in its first turn"


def test_the_rounds_are_counted_and_end_with_a_person() -> None:
    play = sent_back() >> finished() << "look at BUILD" >> looked(built("c2")) << "stop agents/3" >> exited
    play = play << "start reviewer 4" >> started << "follow agents/4" << "turn 1 of 4" << "wake in 3600 s" >> session
    play = play >> finished() << "look at VERIFICATION" >> looked(judged(FAILED)) << "stop agents/4" << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED
    assert "C2: the empty name is not refused" in (play.task.block_reason or "")


def test_a_verdict_that_nobody_can_read_is_asked_for_again() -> None:
    play = verifying() >> looked(judged(None, "it must be a JSON object")) << "turn 2 of 2" << "wake in 3600 s"
    assert "verdict.txt: it must be a JSON object" in turn_text(play.pipeline, play.task)


def test_a_verdict_never_takes_the_place_of_a_guard() -> None:
    text = TEXT.replace('file = "verdict.txt" }', 'file = "ticket.json" }')
    play = verifying()
    play.pipeline = parse_pipeline(text, "checked.toml")
    play = play >> looked(judged(Verdict(passed=True))) << "stop agents/2" >> exited << "resume implementer 3"
    assert play.task.requested_changes == ("ticket.json not found",)


def test_the_first_choice_whose_guards_hold_is_the_way_on() -> None:
    play = Playbook.submitted(a_task(), checked()) >> admitted << "prepare the workspace" >> ready
    play = play << "start implementer 1" >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s" >> session
    play = play >> finished() << "look at BUILD" >> looked(built("c1", "c2", "c3")) << "stop agents/1" >> exited
    play = play << "deliver c3"
    assert play.task.stage == "DONE"


@pytest.mark.parametrize(
    "text",
    [
        '{"criteria": [{"id": "C1", "status": "passed"}, {"id": "C2", "status": "failed", "details": "wrong"}]}',
        f"I looked.\n=== VERIFICATION_RESULT ===\n{ONE_FAILED}",
        f"=== VERIFICATION_RESULT ===\n```json\n{ONE_FAILED}\n```",
    ],
)
def test_a_verdict_is_read_alone_below_its_marker_and_in_a_fence(text: str) -> None:
    assert read_verdict(text) == Verdict(passed=False, failures=("C2: wrong",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it must be a JSON object"),
        ("passed", "it must be a JSON object"),
        ('{"criteria": []}', "it judges no criterion"),
        ('{"criteria": [{"id": "C1", "status": "maybe"}]}', "not 'maybe'"),
        ('{"criteria": ' + "[" * 100_000, "it must be a JSON object"),
        ('{"criteria": ' + '{"a":' * 50_000 + "}" * 50_000, "it must be a JSON object"),
    ],
)
def test_a_malformed_verdict_is_refused_with_the_form_it_must_have(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="it") as refused:
        read_verdict(text)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 500
