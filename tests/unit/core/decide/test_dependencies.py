"""Dependencies that only a user can provide: requested, passed to a new process, refused or skipped."""

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.task import NextAction
from orchestrator.core.task.user_requests import RequestStatus
from orchestrator.errors import AnswerRefused
from tests.unit.playbook import (
    Happening,
    Playbook,
    admitted,
    alarm,
    answered,
    asking,
    at_work,
    daemon_started,
    dependency,
    exited,
    finished,
    freeze_failed,
    frozen,
    full,
    interactive,
    later,
    pause,
    question,
    resume,
    started,
    thawed,
    told,
)

PROVIDED, REJECTED = RequestStatus.PROVIDED, RequestStatus.REJECTED


def lacking() -> Playbook:
    """Return a paused task whose agent cannot continue without a key."""
    play = Playbook(interactive()) >> asking(dependency())
    return play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked" >> told >> frozen


def test_a_provided_value_reaches_a_new_process_of_the_same_session() -> None:
    play = lacking()
    assert play.task.agent.status is AgentStatus.WAITING_DEPENDENCY
    play = play >> later(60) >> answered(1, PROVIDED) << "stop agents/1" >> admitted >> exited << "wake in 0 s"
    play = play >> alarm << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    text = turn_text(full(), play.task)
    assert "- API_KEY: the service wants a key — provided, as the environment variable API_KEY" in text
    assert (play >> finished() << "look at ANALYSIS").task.requests[0].is_delivered
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)


def test_a_value_provided_hours_later_uses_no_retry_even_after_the_turns_time_limit() -> None:
    play = lacking() >> later(4000) >> answered(1, PROVIDED) << "stop agents/1" >> admitted >> alarm
    play = play >> exited << "wake in 0 s" >> alarm << "resume planner 2"
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)


@pytest.mark.parametrize("late", [frozen, freeze_failed, thawed])
def test_a_process_that_is_being_ended_is_not_resumed_by_late_events(late: Happening) -> None:
    play = Playbook(interactive()) >> asking(dependency())
    play = play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked"
    play = play >> answered(1, PROVIDED) << "stop agents/1" >> late >> admitted
    assert play.task.run is not None
    assert play.task.run.process is ProcessState.PARKING
    assert play >> daemon_started << "follow agents/1" << "stop agents/1" << "tell dependency_asked"


def test_a_value_provided_when_nothing_runs_starts_a_process() -> None:
    play = lacking() >> exited
    assert (play.task.next_action, play.task.run) == (NextAction.RETRY, None)
    play = play >> later(86_400) >> answered(1, PROVIDED) >> admitted << "wake in -86400 s"
    assert play >> alarm << "resume planner 2"


def test_a_provided_value_waits_for_another_missing_one() -> None:
    play = Playbook(interactive()) >> asking(dependency(), dependency("OTHER_KEY"), question())
    play = play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked" << "tell dependency_asked"
    play = play << "tell question_asked" >> answered(1, PROVIDED) << "stop agents/1" >> exited
    assert play.task.agent.status is AgentStatus.WAITING_DEPENDENCY
    play = play >> answered(2, REJECTED, "we have none")
    assert play.task.agent.status is AgentStatus.WAITING_QUESTION
    assert (play >> answered(3, RequestStatus.ANSWERED, "left")).task.wants_slot


def test_a_refusal_is_passed_on_with_its_reason_and_the_same_process_continues() -> None:
    play = lacking() >> finished() >> answered(1, REJECTED, "too dear") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 2 of 1" << "wake in 3600 s"
    assert "— refused: too dear; do without it" in turn_text(full(), play.task)


@pytest.mark.parametrize("status", [RequestStatus.ANSWERED, RequestStatus.SKIPPED, RequestStatus.APPROVED])
def test_a_dependency_can_only_be_provided_or_refused(status: RequestStatus) -> None:
    play = lacking()
    with pytest.raises(AnswerRefused):
        machine.decide(full(), play.task, answered(1, status, "sk-1")(play.task, play.now))


def test_a_provided_value_is_never_repeated() -> None:
    play = lacking() >> answered(1, PROVIDED) << "stop agents/1"
    with pytest.raises(AnswerRefused) as caught:
        machine.decide(full(), play.task, answered(1, PROVIDED, "sk-1")(play.task, play.now))
    assert str(caught.value) == "it was provided before, by ada; the first answer counts"


def test_an_unattended_task_waits_for_required_dependencies_and_skips_optional_ones() -> None:
    play = Playbook(at_work()) >> asking(dependency(required=False, default="none"))
    (ask,) = play.task.requests
    assert (ask.status, ask.answer, play.task.is_paused) == (RequestStatus.SKIPPED, "none", False)
    play = play >> asking(dependency("MUST")) << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked"
    assert play.task.agent.blocked_by is PauseReason.DEPENDENCY
    assert play.task.requests[1].deadline is None


def test_a_value_provided_during_a_pause_is_used_only_after_the_pause() -> None:
    play = lacking() >> pause() >> answered(1, PROVIDED) << "stop agents/1" >> exited
    assert play.task.agent.blocked_by is PauseReason.USER
    assert play >> resume() >> admitted << "wake in 0 s" >> alarm << "resume planner 2"


def test_a_dependency_that_is_requested_again_is_asked_for_again() -> None:
    play = lacking() >> answered(1, REJECTED, "no") >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1"
    play = play << "wake in 3600 s" >> asking(dependency()) << "freeze agents/1" << "wake in 1800 s"
    assert len((play << "tell dependency_asked").task.pending_requests) == 1
