"""Stages that a user approves: the same session makes the requested changes, as often as the pipeline allows."""

from dataclasses import replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import DEFAULT_POLICY, Autonomy
from orchestrator.core.task.user_requests import POLICY, BadAnswer, RequestDraft, RequestStatus, Subject
from orchestrator.errors import AnswerRefused
from tests.unit.playbook import (
    LEFT_BEHIND,
    Playbook,
    a_task,
    admitted,
    alarm,
    answer_sent,
    answered,
    asking,
    at,
    at_work,
    cancel,
    committed,
    evaluating,
    exited,
    failed,
    finished,
    frozen,
    full,
    interactive,
    judged,
    later,
    looked,
    pause,
    resume,
    retry,
    started,
    thawed,
    told,
    with_budget,
)

APPROVED, CHANGES = RequestStatus.APPROVED, RequestStatus.CHANGES_REQUESTED
ATTENDED = replace(a_task(), policy=replace(DEFAULT_POLICY, autonomy=Autonomy.INTERACTIVE))


def reviewed(stage: str) -> Pipeline:
    """Return the bundled pipeline with a user review of one stage."""
    return replace(full(), stages={**full().stages, stage: replace(full().stage(stage), review=True)})


def under_review() -> Playbook:
    """Return the conversation of a plan that waits for a user."""
    play = Playbook(at("PLANNING", NextAction.TURN, ATTENDED), reviewed("PLANNING")) >> finished() << "look at PLANNING"
    play = play >> looked() << "freeze agents/1" << "wake in 1800 s" << "tell review_asked"
    return play >> told >> frozen


def test_a_finished_stage_waits_for_a_user_and_is_not_completed_before() -> None:
    task = under_review().task
    assert (task.status, task.agent.status, task.next_action) == (
        TaskStatus.REVIEW, AgentStatus.WAITING_REVIEW, NextAction.NOTHING
    )  # fmt: skip
    assert task.stages["PLANNING"].status is StageStatus.IN_PROGRESS
    assert task.requests[0].draft.text == "PLANNING is done: review plan.md"
    assert allowed(task) == ("approve", "request-changes", "pause", "cancel")
    assert not task.holds_slot


def test_an_approval_continues_in_the_same_process() -> None:
    play = under_review() >> answered(1, APPROVED)
    assert (play.task.status, play.task.stage, play.task.wants_slot) == (TaskStatus.IN_PROGRESS, "DESIGN", True)
    assert play.task.stages["PLANNING"].status is StageStatus.COMPLETED
    assert play >> admitted << "thaw agents/1" >> thawed << "turn 3 of 1" << "wake in 3600 s"


def test_changes_are_made_in_the_same_session_and_reviewed_again() -> None:
    play = under_review() >> answered(1, CHANGES, "split step 2")
    play = play >> admitted << "thaw agents/1" >> thawed << "turn 3 of 1" << "wake in 3600 s"
    told = turn_text(play.pipeline, play.task)
    assert "What you have to change now:\n- A person asks for changes: split step 2" in told
    assert "why: A person has looked at what is there and asks for changes." in told
    assert (play.task.budgets["reworks"].used, play.task.budgets["gate_retries"].used) == (1, 0)
    play = play >> finished() << "look at PLANNING" >> looked() << "freeze agents/1" << "wake in 1800 s"
    play = play << "tell review_asked"
    assert [ask.status for ask in play.task.requests] == [CHANGES, RequestStatus.PENDING]
    play = play >> answered(2, APPROVED)
    assert (play.task.stage, play.task.requested_changes) == ("DESIGN", ())


def test_changes_after_the_agent_was_parked_are_made_by_its_successor() -> None:
    play = under_review() >> later(1800) >> alarm << "stop agents/1" << "wake in 84600 s" << "tell reminder"
    play = play >> exited
    assert (play.task.status, play.task.next_action) == (TaskStatus.REVIEW, NextAction.NOTHING)
    assert play >> answered(1, CHANGES, "shorter") >> admitted << "resume planner 2"


def test_changes_can_be_requested_as_often_as_the_pipeline_allows() -> None:
    play = under_review()
    last = Playbook(with_budget(play.task, "reworks", play.task.budgets["reworks"].limit), play.pipeline)
    blocked = (last >> answered(1, CHANGES, "again") << "stop agents/1" << "tell blocked").task
    assert blocked.block_reason == "PLANNING: changes were requested as often as the pipeline allows"


@pytest.mark.parametrize(
    ("status", "text", "digest", "words"),
    [
        (CHANGES, "  ", None, "say which changes you want"),
        (APPROVED, "", "0" * 64, "look at it again"),
        (RequestStatus.ANSWERED, "yes", None, "this is a review; approve or request-changes it"),
    ],
)
def test_a_review_refers_to_what_was_shown_and_states_the_requested_changes(
    status: RequestStatus, text: str, digest: str | None, words: str
) -> None:
    play = under_review()
    with pytest.raises((AnswerRefused, BadAnswer), match=words):
        machine.decide(play.pipeline, play.task, answered(1, status, text, digest=digest)(play.task, play.now))


def test_reviews_of_different_work_have_different_digests() -> None:
    play = Playbook(at("PLANNING", NextAction.GATE, ATTENDED), reviewed("PLANNING"))

    def digest_of(found: str) -> str:
        plan = replace(LEFT_BEHIND["PLANNING"].files["plan.md"], digest=found)
        look = looked(replace(LEFT_BEHIND["PLANNING"], files={"plan.md": plan}))(play.task, play.now)
        return machine.decide(play.pipeline, play.task, look)[0].requests[0].digest

    assert digest_of("one") == digest_of("one") != digest_of("another")


def test_an_unattended_task_approves_by_its_policy_and_records_it() -> None:
    play = (
        Playbook(at("PLANNING", NextAction.GATE), reviewed("PLANNING")) >> looked() << "turn 3 of 1" << "wake in 3600 s"
    )
    (ask,) = play.task.requests
    assert (ask.status, ask.answered_by, ask.draft.subject) == (APPROVED, POLICY, Subject.STAGE)


def test_an_approved_stage_that_is_entered_again_is_reviewed_again() -> None:
    play = under_review() >> answered(1, APPROVED)
    back = replace(play.task, stage="PLANNING", next_action=NextAction.GATE, run=None)
    record = replace(back.stages["PLANNING"], visits=2)
    again = replace(back, stages={**back.stages, "PLANNING": record})
    after, _ = machine.decide(play.pipeline, again, looked()(again, play.now))
    assert after.status is TaskStatus.REVIEW


def test_a_stage_of_steps_is_reviewed_when_its_last_step_is_done() -> None:
    play = Playbook(at("IMPLEMENTATION", NextAction.GATE, ATTENDED), reviewed("IMPLEMENTATION"))
    play = play >> looked(committed("c1")) << "turn 2 of 2" << "wake in 3600 s" >> finished()
    play = play << "look at IMPLEMENTATION" >> looked(committed("c2"))
    play = play << "freeze agents/2" << "wake in 1800 s" << "tell review_asked"
    assert play.task.requests[0].draft.text == "IMPLEMENTATION is done: review commit c2"
    play = play >> answered(1, CHANGES, "rename it") >> admitted << "turn 3 of 2" << "wake in 3600 s"
    assert "Every step is done. Commit what is still to change" in turn_text(play.pipeline, play.task)
    play = play >> finished() << "look at IMPLEMENTATION" >> looked(committed("c3"))
    play = play << "freeze agents/2" << "wake in 1800 s" << "tell review_asked"
    assert play.task.source.head == "c3"


def test_passed_checks_are_reviewed_and_changes_lead_back_to_the_stage_that_fixes() -> None:
    task = replace(evaluating(Verdict.PASS), policy=ATTENDED.policy)
    play = Playbook(task, reviewed("EVALUATION")) >> judged() << "wake in 1800 s" << "tell review_asked"
    assert play.task.requests[0].draft.text == "EVALUATION is done: review test-report.md"
    play = play >> answered(1, CHANGES, "it is too slow") >> admitted << "start planner 3"
    assert (play.task.stage, play.task.requested_changes) == (
        "ANALYSIS",
        ("A person asks for changes: it is too slow",),
    )


def test_a_review_that_a_user_pauses_is_still_open_after_the_pause() -> None:
    play = under_review() >> pause() >> resume()
    assert (play.task.status, play.task.agent.status) == (TaskStatus.REVIEW, AgentStatus.WAITING_REVIEW)
    play = play >> pause() >> answered(1, APPROVED)
    assert (play.task.stage, play.task.agent.blocked_by) == ("DESIGN", PauseReason.USER)


def test_a_cancelled_review_ends_its_agent() -> None:
    assert (under_review() >> cancel << "stop agents/1" >> exited).task.status is TaskStatus.CANCELLED


def test_the_review_of_a_blocked_task_is_requested_again() -> None:
    play = Playbook(at("PLANNING", NextAction.TURN, ATTENDED), reviewed("PLANNING")) >> finished() << "look at PLANNING"
    play = play >> looked() << "freeze agents/1" << "wake in 1800 s" << "tell review_asked"
    freeze = obligations(play.pipeline, play.task)[1]
    play = play >> failed(freeze, "no cgroup") << "stop agents/1" << "tell blocked" >> exited
    play = play >> retry
    assert [ask.status for ask in play.task.requests] == [RequestStatus.WITHDRAWN]
    assert play >> admitted << "resume planner 2"


def plan_shown() -> Playbook:
    """Return an agent in plan mode that wants to start."""
    plan = RequestDraft(subject=Subject.PLAN, text="1. do it", request_id="r1", content="{}")
    play = Playbook(interactive()) >> asking(plan) << "freeze agents/1" << "wake in 1800 s" << "tell review_asked"
    return play >> told >> frozen


@pytest.mark.parametrize(("status", "text"), [(APPROVED, ""), (CHANGES, "smaller")])
def test_the_answer_to_a_plan_goes_to_the_waiting_process(status: RequestStatus, text: str) -> None:
    play = plan_shown()
    assert (play.task.status, play.task.agent.status) == (TaskStatus.IN_PROGRESS, AgentStatus.WAITING_REVIEW)
    play = play >> answered(1, status, text) >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1"
    play = play << "answer r1 of 1" << "wake in 3600 s" >> answer_sent()
    assert play >> finished() << "look at ANALYSIS"


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [(APPROVED, "", "— approved"), (CHANGES, "smaller", "— changes are wanted: smaller")],
)
def test_the_answer_to_a_plan_of_a_dead_process_goes_into_the_next_turn(
    status: RequestStatus, text: str, words: str
) -> None:
    play = plan_shown() >> exited >> answered(1, status, text) >> admitted << "wake in 0 s"
    play = play >> alarm << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    assert words in turn_text(full(), play.task)


def test_a_stage_without_a_review_asks_no_user() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS" >> looked() << "turn 2 of 1"
    assert (play << "wake in 3600 s").task.requests == ()


def attended(task: Task) -> Task:
    return replace(task, policy=ATTENDED.policy)


def test_a_review_that_comes_as_a_user_pauses_waits_for_the_end_of_the_pause() -> None:
    play = Playbook(attended(at("PLANNING", NextAction.GATE)), reviewed("PLANNING")) >> pause() << "freeze agents/1"
    play = play >> looked() << "wake in 1800 s" << "tell review_asked"
    assert (play.task.status, play.task.agent.blocked_by) == (TaskStatus.REVIEW, PauseReason.USER)
    assert (play >> resume()).task.agent.status is AgentStatus.WAITING_REVIEW
