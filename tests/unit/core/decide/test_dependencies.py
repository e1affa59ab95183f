"""What only a person can provide: asked for, given to a new process, refused or done without."""

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
    """An agent that cannot go on without a key, and stands still."""
    play = Playbook(interactive()) >> asking(dependency())
    return play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked" >> told >> frozen


def test_what_is_provided_reaches_a_new_process_of_the_same_session() -> None:
    play = lacking()
    assert play.task.agent.status is AgentStatus.WAITING_DEPENDENCY
    play = play >> later(60) >> answered(1, PROVIDED) << "stop agents/1" >> admitted >> exited << "wake in 0 s"
    play = play >> alarm << "resume planner 2" >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    text = turn_text(full(), play.task)
    assert "- API_KEY: the service wants a key — provided, as the environment variable API_KEY" in text
    assert (play >> finished() << "look at ANALYSIS").task.requests[0].is_delivered
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)


def test_what_is_provided_hours_later_costs_no_try_though_the_turns_time_is_long_over() -> None:
    play = lacking() >> later(4000) >> answered(1, PROVIDED) << "stop agents/1" >> admitted >> alarm
    play = play >> exited << "wake in 0 s" >> alarm << "resume planner 2"
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)


@pytest.mark.parametrize("late", [frozen, freeze_failed, thawed])
def test_what_is_being_ended_is_not_taken_up_again_by_late_news(late: Happening) -> None:
    play = Playbook(interactive()) >> asking(dependency())
    play = play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked"
    play = play >> answered(1, PROVIDED) << "stop agents/1" >> late >> admitted
    assert play.task.run is not None
    assert play.task.run.process is ProcessState.PARKING
    assert play >> daemon_started << "follow agents/1" << "stop agents/1" << "tell dependency_asked"


def test_what_is_provided_when_nothing_runs_any_more_begins_by_itself() -> None:
    play = lacking() >> exited
    assert (play.task.next_action, play.task.run) == (NextAction.RETRY, None)
    play = play >> later(86_400) >> answered(1, PROVIDED) >> admitted << "wake in -86400 s"
    assert play >> alarm << "resume planner 2"


def test_one_that_is_provided_while_another_is_missing_waits_for_that_one() -> None:
    play = Playbook(interactive()) >> asking(dependency(), dependency("OTHER_KEY"), question())
    play = play << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked" << "tell dependency_asked"
    play = play << "tell question_asked" >> answered(1, PROVIDED) << "stop agents/1" >> exited
    assert play.task.agent.status is AgentStatus.WAITING_DEPENDENCY
    play = play >> answered(2, REJECTED, "we have none")
    assert play.task.agent.status is AgentStatus.WAITING_QUESTION
    assert (play >> answered(3, RequestStatus.ANSWERED, "left")).task.wants_slot


def test_what_is_refused_is_told_with_the_reason_and_the_same_process_goes_on() -> None:
    play = lacking() >> finished() >> answered(1, REJECTED, "too dear") >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 2 of 1" << "wake in 3600 s"
    assert "— refused: too dear; do without it" in turn_text(full(), play.task)


@pytest.mark.parametrize("status", [RequestStatus.ANSWERED, RequestStatus.SKIPPED, RequestStatus.APPROVED])
def test_a_dependency_is_provided_or_refused_and_nothing_else(status: RequestStatus) -> None:
    play = lacking()
    with pytest.raises(AnswerRefused):
        machine.decide(full(), play.task, answered(1, status, "sk-1")(play.task, play.now))


def test_a_value_that_was_given_is_never_repeated() -> None:
    play = lacking() >> answered(1, PROVIDED) << "stop agents/1"
    with pytest.raises(AnswerRefused) as caught:
        machine.decide(full(), play.task, answered(1, PROVIDED, "sk-1")(play.task, play.now))
    assert str(caught.value) == "it was provided before, by ada; the first answer counts"


def test_an_unattended_task_waits_for_what_it_must_have_and_does_without_the_rest() -> None:
    play = Playbook(at_work()) >> asking(dependency(required=False, default="none"))
    (ask,) = play.task.requests
    assert (ask.status, ask.answer, play.task.is_paused) == (RequestStatus.SKIPPED, "none", False)
    play = play >> asking(dependency("MUST")) << "freeze agents/1" << "wake in 1800 s" << "tell dependency_asked"
    assert play.task.agent.blocked_by is PauseReason.DEPENDENCY
    assert play.task.requests[1].deadline is None


def test_what_is_provided_during_a_pause_is_not_gone_on_with_before_its_end() -> None:
    play = lacking() >> pause() >> answered(1, PROVIDED) << "stop agents/1" >> exited
    assert play.task.agent.blocked_by is PauseReason.USER
    assert play >> resume() >> admitted << "wake in 0 s" >> alarm << "resume planner 2"


def test_a_dependency_that_is_asked_for_again_is_asked_for_again() -> None:
    play = lacking() >> answered(1, REJECTED, "no") >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1"
    play = play << "wake in 3600 s" >> asking(dependency()) << "freeze agents/1" << "wake in 1800 s"
    assert len((play << "tell dependency_asked").task.pending_requests) == 1
