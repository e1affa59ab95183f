"""A stage that verifies: another role's verdict, back to the author's own session, and ways on that guards choose."""

from dataclasses import replace
from datetime import datetime

import pytest

from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.events.events import AgentExited, Event
from orchestrator.core.family.verdict import Verdict, read_verdict
from orchestrator.core.task.agent import SessionOrigin
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestStatus
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from tests.unit.playbook import Playbook, a_task, admitted, answered, exited, finished, looked, ready, session, started

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


def verifying(pipeline: Pipeline | None = None, autonomy: Autonomy = Autonomy.INTERACTIVE) -> Playbook:
    """Return a conversation about a task whose first build is being verified."""
    task = replace(a_task(), policy=replace(a_task().policy, autonomy=autonomy))
    play = Playbook.submitted(task, pipeline or checked()) >> admitted << "prepare the workspace" >> ready
    play = play << "start implementer 1" >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s" >> session
    play = play >> finished() << "look at BUILD" >> looked(built("c1")) << "stop agents/1" >> ended
    play = play << "start reviewer 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s" >> session
    play = play >> finished() << "look at VERIFICATION"
    assert play
    return play


def sent_back(pipeline: Pipeline | None = None, autonomy: Autonomy = Autonomy.INTERACTIVE) -> Playbook:
    """Return the conversation when the author works again."""
    play = (
        verifying(pipeline, autonomy) >> looked(judged(FAILED)) << "stop agents/2" >> exited << "resume implementer 3"
    )
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


def exhausted(policy: str, autonomy: Autonomy = Autonomy.INTERACTIVE) -> Playbook:
    """Return the conversation when the last verification that may fail has failed."""
    text = TEXT.replace('budget = "reworks_of_build"', f'budget = "reworks_of_build"\non_exhausted = "{policy}"')
    play = sent_back(parse_pipeline(text, "checked.toml"), autonomy)
    play = play >> finished() << "look at BUILD" >> looked(built("c2")) << "stop agents/3" >> exited
    play = play << "start reviewer 4" >> started << "follow agents/4" << "turn 1 of 4" << "wake in 3600 s" >> session
    return play >> finished() << "look at VERIFICATION" >> looked(judged(FAILED))


def test_a_person_may_accept_work_whose_ways_back_are_used_up() -> None:
    play = exhausted("review") << "freeze agents/4" << "wake in 1800 s" << "tell review_asked"
    (request,) = play.task.pending_requests
    assert play.task.status is TaskStatus.REVIEW
    assert "no try is left: C2: the empty name is not refused; approve it as it is" in request.draft.text
    play = play >> answered(1, RequestStatus.APPROVED)
    assert play.task.stage == "DONE"


def test_changes_that_a_person_requests_go_to_the_author_and_start_the_budget_anew() -> None:
    play = exhausted("review") << "freeze agents/4" << "wake in 1800 s" << "tell review_asked"
    play = play >> answered(1, RequestStatus.CHANGES_REQUESTED, "Allow the empty name.")
    task = play.task
    assert (task.stage, task.status) == ("BUILD", TaskStatus.IN_PROGRESS)
    assert task.requested_changes == ("A person asks for changes: Allow the empty name.",)
    assert (task.budgets["reworks_of_build"].used, task.budgets["reworks"].used) == (0, 1)


def test_a_task_that_asks_nobody_is_blocked_when_the_ways_back_are_used_up() -> None:
    play = exhausted("review", Autonomy.AUTO) << "stop agents/4" << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED


def test_work_that_never_passes_has_failed_where_the_pipeline_says_so() -> None:
    play = exhausted("fail") << "stop agents/4" << "tell failed"
    assert play.task.status is TaskStatus.FAILED
    assert "C2: the empty name is not refused" in (play.task.block_reason or "")


def test_a_reaction_without_ways_back_is_refused() -> None:
    text = TEXT.replace('work = "deliver"', 'work = "deliver"\non_exhausted = "fail"')
    with pytest.raises(PipelineError, match="no ways back that could be used up"):
        parse_pipeline(text, "checked.toml")


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
