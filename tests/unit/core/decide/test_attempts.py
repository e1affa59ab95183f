"""Agents that are lost, fail or never end: a growing pause, the same session once more, and at last a person."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.lifecycle import FOR_A_PERSON
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from tests.unit.playbook import (
    Playbook,
    alarm,
    at,
    at_work,
    exited,
    finished,
    frozen,
    later,
    looked,
    pause,
    session,
    started,
    with_budget,
)


def limited(retries: int, retry_delay: float = 10.0) -> Task:
    """A task at work whose agent may be started anew so often."""
    task = at_work()
    budget = replace(task.budgets["agent_retries"], limit=retries)
    return replace(
        task, policy=replace(task.policy, retry_delay=retry_delay), budgets={**task.budgets, "agent_retries": budget}
    )


def test_a_lost_agent_comes_back_with_its_session_after_a_pause() -> None:
    task = at_work()
    play = (
        Playbook(task)
        >> exited << "wake in 10 s"
        >> later(9) >> alarm
        >> later(1) >> alarm << "resume planner 2"
        >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    )  # fmt: skip
    assert play.task.agent.session.id == task.agent.session.id
    (entry,) = play.task.failures.entries
    assert (entry.id, entry.type, entry.action, entry.summary) == ("fail-001", "agent_lost", "retry", "it was killed")


def test_pauses_double_up_to_five_minutes_and_then_a_person_must_look() -> None:
    play = Playbook(limited(retries=7))
    for attempt, delay in enumerate((10, 20, 40, 80, 160, 300, 300), 2):
        play = play >> exited << f"wake in {delay} s" >> later(delay) >> alarm << f"resume planner {attempt}"
        play = play >> started << f"follow agents/{attempt}" << f"turn 1 of {attempt}" << "wake in 3600 s" >> session
    play = play >> exited << "tell blocked"
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "ANALYSIS: it was killed")
    assert (play.task.run, play.task.next_action, play.task.agent.status) == (
        None,
        NextAction.NOTHING,
        AgentStatus.FAILED,
    )
    assert play.task.failures.entries[-1].action == "user_intervention"


def test_a_session_that_was_never_seen_is_not_resumed() -> None:
    task = at("ANALYSIS", NextAction.TURN)
    assert not task.agent.session.is_known
    play = Playbook(task) >> exited << "wake in 10 s" >> later(10) >> alarm << "start planner 2"
    assert play.task.agent.session.id != task.agent.session.id


def test_a_resumed_session_that_does_not_answer_is_given_up() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    play = play >> exited << "wake in 20 s" >> later(20) >> alarm << "start planner 3"
    assert not play.task.agent.session.is_resumed


def test_another_role_never_goes_on_with_a_session() -> None:
    play = Playbook(at("IMPLEMENTATION", NextAction.STOP)) >> exited << "start implementer 2"
    assert play.task.agent.role == "implementer"


def test_an_agent_that_could_not_be_started_is_tried_again() -> None:
    play = (
        Playbook(at("ANALYSIS", NextAction.AGENT))
        >> exited
        << "wake in 10 s"
        >> later(10)
        >> alarm
        << "start planner 2"
    )
    assert play.task.failures.entries[0].attempted == "turn 0 of attempt 1"


def test_a_failed_turn_ends_its_agent_before_another_one_begins() -> None:
    play = (
        Playbook(at_work())
        >> finished("the connection was refused") << "stop agents/1"
        >> later(3) >> exited << "wake in 7 s"
        >> later(7) >> alarm << "resume planner 2"
    )  # fmt: skip
    assert play.task.failures.by_type == {"turn_failed": 1}


def test_a_failed_turn_that_was_the_last_try_blocks_and_stops() -> None:
    play = Playbook(with_budget(at_work(), "agent_retries", 2)) >> finished("refused") << "stop agents/1"
    play = play << "tell blocked" >> exited
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "ANALYSIS: refused")


@pytest.mark.parametrize("error_class", sorted(FOR_A_PERSON))
def test_what_no_other_attempt_mends_is_left_to_a_person_at_once(error_class: str) -> None:
    play = (
        Playbook(at_work()) >> finished("not logged in", error_class=error_class) << "stop agents/1" << "tell blocked"
    )
    assert play.task.block_reason is not None
    assert play.task.block_reason.startswith("ANALYSIS: not logged in")


def test_the_class_of_a_failed_turn_is_kept() -> None:
    play = Playbook(at_work()) >> finished("no", error_class="refusal") << "stop agents/1"
    assert play.task.failures.by_type == {"refusal": 1}


def test_a_turn_without_a_result_in_time_is_interrupted_and_tried_again() -> None:
    play = (
        Playbook(at_work())
        >> later(3599) >> alarm
        >> later(1) >> alarm << "interrupt agents/1"
        >> later(5) >> exited << "wake in 5 s"
        >> later(5) >> alarm << "resume planner 2"
    )  # fmt: skip
    assert play.task.failures.entries[0].summary == "no result within 3600 s"
    assert play.task.failures.by_type == {"turn_timeout": 1}


def test_a_result_after_its_time_counts_its_cost_and_nothing_else() -> None:
    play = Playbook(at_work()) >> later(3600) >> alarm << "interrupt agents/1"
    play = play >> finished() << "stop agents/1"
    assert (play.task.next_action, play.task.agent.usage.cost_usd) == (NextAction.STOP, 0.25)


def test_an_agent_that_ends_after_its_turn_does_not_disturb_the_gate() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS" >> exited
    assert (play.task.next_action, play.task.agent.status, play.task.failures.total) == (
        NextAction.GATE,
        AgentStatus.IDLE,
        0,
    )
    play = play >> looked() << "resume planner 2"
    assert (play.task.stage, play.task.agent.status) == ("PLANNING", AgentStatus.RUNNING)


def test_progress_renews_the_attempts() -> None:
    play = Playbook(with_budget(at_work(), "agent_retries", 2)) >> finished() << "look at ANALYSIS"
    play = play >> looked() << "turn 2 of 1" << "wake in 3600 s"
    assert play.task.budgets["agent_retries"].used == 0


def test_status_says_running_only_while_an_agent_is_there() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s"
    assert play.task.agent.status is AgentStatus.IDLE
    play = play >> later(10) >> alarm << "resume planner 2"
    assert play.task.agent.status is AgentStatus.RUNNING


def test_an_agent_that_dies_while_frozen_comes_back_without_costing_a_try() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s" >> exited
    assert (play.task.next_action, play.task.failures.total, play.task.agent.status) == (
        NextAction.RETRY,
        0,
        AgentStatus.PAUSED,
    )
    assert play.task.budgets["agent_retries"].used == 0


def test_a_task_needs_no_attempts_to_be_blocked_by_a_budget_it_does_not_have() -> None:
    play = Playbook(replace(at_work(), budgets={})) >> exited << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED
