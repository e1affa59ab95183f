"""A session that was reported but never saved: the CLI does not know it, and the work starts again."""

from dataclasses import replace

from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.task.guards import NOTHING_SEEN
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestStatus
from tests.unit.core.decide.test_usage_limits import after
from tests.unit.playbook import (
    Happening,
    Playbook,
    admitted,
    alarm,
    answered,
    asking,
    at_work,
    exited,
    finished,
    frozen,
    full,
    later,
    limit_hit,
    looked,
    question,
    session,
    started,
)

GONE = "No conversation found with session ID: 7"


def test_a_session_that_does_not_exist_uses_no_retry_and_a_new_one_starts_at_once() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    play = play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    tries = play.task.budgets["agent_retries"]
    play = play >> finished(GONE, error_class="session") << "stop agents/2" >> exited << "wake in 0 s"
    play = play >> alarm << "start planner 3"
    assert play.task.budgets["agent_retries"] == tries
    assert not play.task.agent.session.is_resumed


def test_a_new_session_that_is_not_found_is_an_ordinary_failure() -> None:
    play = Playbook(at_work()) >> finished(GONE, error_class="session") << "stop agents/1"
    assert [entry.type for entry in play.task.failures.entries] == ["session"]


def begun_anew(*happenings: Happening) -> Task:
    """Return a task whose agent died after these events, in the first turn of one that cannot resume its session."""
    begun = at_work()
    task = replace(begun, policy=replace(begun.policy, autonomy=Autonomy.INTERACTIVE))
    task = after(task, session, *happenings, exited, later(3600), alarm, admitted, alarm, started)
    assert task.agent.session.is_resumed
    return after(task, finished(GONE, error_class="session"), exited, alarm, started)


def test_the_successor_of_a_lost_conversation_is_told_so_and_where_to_look() -> None:
    task = begun_anew(limit_hit(60), frozen)
    assert "why: Another agent worked on this and its conversation is lost." in turn_text(full(), task)
    following = after(task, finished(), looked(NOTHING_SEEN))
    assert "conversation is lost" not in turn_text(full(), following)


def test_questions_answered_only_in_the_lost_conversation_are_answered_again() -> None:
    known = (asking(question()), answered(1, RequestStatus.ANSWERED, "left"), admitted, finished(), finished())
    assert after(begun_anew(*known, looked(NOTHING_SEEN)), finished()).requests[0].is_delivered
    assert "- Which one? — left" in turn_text(full(), begun_anew(*known, looked(NOTHING_SEEN)))
