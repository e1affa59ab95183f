"""Agents that are lost, fail or never finish: retries with growing delays in the same session, then a user decides."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.lifecycle import FOR_A_PERSON
from orchestrator.core.decide.turns import ACCOUNT_ERRORS
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from tests.unit.playbook import (
    Playbook,
    admitted,
    alarm,
    at,
    at_work,
    exited,
    finished,
    frozen,
    later,
    looked,
    lost,
    pause,
    resume,
    session,
    started,
    with_budget,
)


def limited(retries: int, retry_delay: float = 10.0) -> Task:
    """Return an active task whose agent may be restarted this many times."""
    task = at_work()
    budget = replace(task.budgets["agent_retries"], limit=retries)
    return replace(
        task, policy=replace(task.policy, retry_delay=retry_delay), budgets={**task.budgets, "agent_retries": budget}
    )


def test_a_lost_agent_is_restarted_with_its_session_after_a_delay() -> None:
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


def lost_and_resumed(play: Playbook, *delays: int) -> Playbook:
    """Return the play after its agent was lost and resumed again, each time after another delay in seconds."""
    for delay in delays:
        attempt = play.task.agent.attempt + 1
        play = play >> lost << f"wake in {delay} s" >> later(delay) >> alarm << f"resume planner {attempt}"
        play = play >> started << f"follow agents/{attempt}" << f"turn 1 of {attempt}" << "wake in 3600 s" >> session
    return play


LOSSES = (10, 20, 40, 80, 160, 300, 300, 300, 300, 300)


def test_an_agent_that_is_lost_with_its_holder_or_the_machine_uses_no_retry() -> None:
    play = lost_and_resumed(Playbook(limited(retries=0)), *LOSSES)
    assert play.task.status is TaskStatus.IN_PROGRESS
    assert play.task.failures.by_type == {"agent_lost": 10}
    assert play.task.agent.session.is_resumed


def test_work_that_brings_the_machine_down_again_and_again_is_noticed() -> None:
    play = lost_and_resumed(Playbook(limited(retries=1)), *LOSSES, 10)
    assert (play.task.status, play.task.budgets["agent_retries"].used) == (TaskStatus.IN_PROGRESS, 1)
    play = play >> lost << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED
    assert play.task.block_reason == "ANALYSIS: its holder was killed; that happened 12 times in a row"


def test_a_finished_turn_ends_a_series_of_losses() -> None:
    play = lost_and_resumed(Playbook(limited(retries=0)), *LOSSES) >> finished() << "look at ANALYSIS"
    assert play.task.agent.setbacks.losses == 0


def test_retry_delays_double_up_to_five_minutes_and_then_the_task_is_blocked() -> None:
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


def test_a_session_that_never_started_is_not_resumed() -> None:
    task = at("ANALYSIS", NextAction.TURN)
    assert not task.agent.session.is_known
    play = Playbook(task) >> exited << "wake in 10 s" >> later(10) >> alarm << "start planner 2"
    assert play.task.agent.session.id != task.agent.session.id


def test_a_resumed_session_that_does_not_respond_is_abandoned() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    play = play >> exited << "wake in 20 s" >> later(20) >> alarm << "start planner 3"
    assert not play.task.agent.session.is_resumed


def test_another_role_never_resumes_a_session() -> None:
    play = Playbook(at("IMPLEMENTATION", NextAction.STOP)) >> exited << "start implementer 2"
    assert play.task.agent.role == "implementer"


def test_an_agent_that_failed_to_start_is_retried() -> None:
    play = (
        Playbook(at("ANALYSIS", NextAction.AGENT))
        >> exited
        << "wake in 10 s"
        >> later(10)
        >> alarm
        << "start planner 2"
    )
    assert play.task.failures.entries[0].attempted == "turn 0 of attempt 1"


def test_a_failed_turn_ends_its_agent_before_another_one_starts() -> None:
    play = (
        Playbook(at_work())
        >> finished("the connection was refused") << "stop agents/1"
        >> later(3) >> exited << "wake in 7 s"
        >> later(7) >> alarm << "resume planner 2"
    )  # fmt: skip
    assert play.task.failures.by_type == {"turn_failed": 1}


def test_a_failed_turn_without_retries_left_blocks_the_task_and_stops_the_agent() -> None:
    play = Playbook(with_budget(at_work(), "agent_retries", 2)) >> finished("refused") << "stop agents/1"
    play = play << "tell blocked" >> exited
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "ANALYSIS: refused")


@pytest.mark.parametrize("error_class", sorted(FOR_A_PERSON.keys() - ACCOUNT_ERRORS))
def test_an_error_that_a_retry_cannot_fix_blocks_the_task_at_once(error_class: str) -> None:
    play = (
        Playbook(at_work()) >> finished("not logged in", error_class=error_class) << "stop agents/1" << "tell blocked"
    )
    assert play.task.block_reason is not None
    assert play.task.block_reason.startswith("ANALYSIS: not logged in")


@pytest.mark.parametrize("error_class", sorted(ACCOUNT_ERRORS))
def test_a_task_whose_account_is_refused_waits_and_goes_on_in_its_session(error_class: str) -> None:
    play = Playbook(at_work()) >> finished("no credit", error_class=error_class) << "stop agents/1"
    play = play << "tell login_missing" >> exited
    assert (play.task.status, play.task.agent.blocked_by) == (TaskStatus.IN_PROGRESS, PauseReason.SERVICE)
    play = play >> resume(PauseReason.SERVICE) >> admitted << "wake in 0 s" >> alarm << "resume planner 2"
    assert play.task.budgets["agent_retries"].used == 0


def test_the_error_class_of_a_failed_turn_is_kept() -> None:
    play = Playbook(at_work()) >> finished("no", error_class="refusal") << "stop agents/1"
    assert play.task.failures.by_type == {"refusal": 1}


def test_a_turn_that_exceeds_its_time_limit_is_interrupted_and_retried() -> None:
    play = (
        Playbook(at_work())
        >> later(3599) >> alarm
        >> later(1) >> alarm << "interrupt agents/1"
        >> later(5) >> exited << "wake in 5 s"
        >> later(5) >> alarm << "resume planner 2"
    )  # fmt: skip
    assert play.task.failures.entries[0].summary == "no result within 3600 s"
    assert play.task.failures.by_type == {"turn_timeout": 1}


def test_a_result_after_the_time_limit_only_adds_its_cost() -> None:
    play = Playbook(at_work()) >> later(3600) >> alarm << "interrupt agents/1"
    play = play >> finished() << "stop agents/1"
    assert (play.task.next_action, play.task.agent.usage.cost_usd) == (NextAction.STOP, 0.25)


def test_an_agent_that_exits_after_its_turn_does_not_disturb_the_gate() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS" >> exited
    assert (play.task.next_action, play.task.agent.status, play.task.failures.total) == (
        NextAction.GATE,
        AgentStatus.IDLE,
        0,
    )
    play = play >> looked() << "resume planner 2"
    assert (play.task.stage, play.task.agent.status) == ("PLANNING", AgentStatus.RUNNING)


def test_progress_resets_the_attempts() -> None:
    play = Playbook(with_budget(at_work(), "agent_retries", 2)) >> finished() << "look at ANALYSIS"
    play = play >> looked() << "turn 2 of 1" << "wake in 3600 s"
    assert play.task.budgets["agent_retries"].used == 0


def test_status_is_running_only_while_an_agent_exists() -> None:
    play = Playbook(at_work()) >> exited << "wake in 10 s"
    assert play.task.agent.status is AgentStatus.IDLE
    play = play >> later(10) >> alarm << "resume planner 2"
    assert play.task.agent.status is AgentStatus.RUNNING


def test_an_agent_that_dies_while_frozen_is_restarted_without_using_a_retry() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s" >> exited
    assert (play.task.next_action, play.task.failures.total, play.task.agent.status) == (
        NextAction.RETRY,
        0,
        AgentStatus.PAUSED,
    )
    assert play.task.budgets["agent_retries"].used == 0


def test_a_task_without_a_retry_budget_is_blocked_at_once() -> None:
    play = Playbook(replace(at_work(), budgets={})) >> exited << "tell blocked"
    assert play.task.status is TaskStatus.BLOCKED
