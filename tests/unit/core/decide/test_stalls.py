"""Agents without output, tasks that a user retries, and drafts that are submitted."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.lifecycle import LOSSES_ALLOWED
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.task.agent import AgentStatus, PauseReason, Setbacks
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import RequestStatus
from orchestrator.errors import InvalidTransition
from tests.unit.playbook import (
    Playbook,
    a_task,
    admitted,
    alarm,
    answered,
    asking,
    at,
    at_work,
    cancel,
    evaluating,
    exited,
    failed,
    finished,
    frozen,
    full,
    interactive,
    interrupted,
    judged,
    later,
    looked,
    pause,
    question,
    ready,
    retry,
    sent_off,
    stalled,
    started,
    with_budget,
)


def test_a_stalled_agent_is_noted_then_nudged_then_restarted_and_then_the_task_is_blocked() -> None:
    play = Playbook(at_work()) >> stalled
    assert play.task.agent.setbacks.nudges == 1
    play = play >> stalled << "end turn 1 of 1" << "wake in 60 s" >> stalled >> interrupted
    play = play << "turn 2 of 1" << "wake in 3600 s"
    assert "- You showed no activity (no output for 900 s)." in turn_text(full(), play.task)
    play = play >> stalled << "interrupt agents/1" >> exited << "wake in 10 s"
    play = play >> later(10) >> alarm << "resume planner 2"
    assert play.task.failures.by_type == {"stalled": 1}
    play = play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"
    play = play >> stalled << "interrupt agents/2" << "tell blocked"
    assert play.task.block_reason == "ANALYSIS: stalled again after a restart: no output for 900 s"


def test_a_successful_turn_resets_the_stall_count() -> None:
    play = Playbook(at_work()) >> stalled >> stalled << "end turn 1 of 1" << "wake in 60 s" >> interrupted
    play = play << "turn 2 of 1" << "wake in 3600 s" >> finished() << "look at ANALYSIS" >> looked()
    play = play << "turn 3 of 1" << "wake in 3600 s" >> stalled
    assert (play.task.agent.setbacks.nudges, play.task.next_action) == (1, NextAction.TURN)


def test_a_turn_that_succeeds_as_it_is_interrupted_is_followed_by_the_nudge() -> None:
    play = Playbook(at_work()) >> stalled >> stalled << "end turn 1 of 1" << "wake in 60 s" >> finished()
    assert play << "turn 2 of 1" << "wake in 3600 s"


@pytest.mark.parametrize(
    "task",
    [
        (Playbook(at_work()) >> pause() << "freeze agents/1").task,
        (Playbook(at_work()) >> finished() << "look at ANALYSIS").task,
    ],
    ids=["standing still", "between turns"],
)
def test_an_agent_without_a_running_turn_cannot_stall(task: Task) -> None:
    assert machine.decide(full(), task, stalled(task, task.updated_at))[0] is task


# Blocked tasks and retries


def blocked_for_good() -> Playbook:
    return Playbook(with_budget(at_work(), "agent_retries", 2)) >> exited << "tell blocked"


def test_a_blocked_stage_is_retried_with_all_retries_and_the_same_session() -> None:
    play = blocked_for_good() >> retry
    assert (play.task.status, play.task.agent.status, play.task.block_reason) == (
        TaskStatus.IN_PROGRESS, AgentStatus.PAUSED, None
    )  # fmt: skip
    assert play.task.stages["ANALYSIS"].visits == 2
    assert {budget.used for budget in play.task.budgets.values()} == {0}
    assert play >> admitted << "resume planner 2"


def test_a_retry_waits_for_the_process_that_is_still_being_ended() -> None:
    play = Playbook(at_work()) >> finished("no", error_class="model") << "stop agents/1" << "tell blocked"
    play = play >> retry >> admitted
    assert play.task.next_action is NextAction.STOP
    play = play >> exited << "resume planner 2"
    assert play.task.failures.total == 0


def test_a_task_that_never_got_a_worktree_gets_one() -> None:
    play = Playbook(at("TICKET_INTAKE", NextAction.WORKSPACE))
    play = play >> failed(obligations(full(), play.task)[0], "no disk") << "tell blocked" >> retry
    assert play >> admitted << "prepare the workspace" >> ready << "look at TICKET_INTAKE"


def test_checks_that_failed_too_often_run_again() -> None:
    task = with_budget(evaluating(Verdict.PASS), "agent_retries", 2)
    play = Playbook(task.with_setbacks(Setbacks(losses=LOSSES_ALLOWED))) >> judged(None) << "tell blocked"
    assert play >> retry >> admitted << "check unit_test in logs/2-unit_test"


def test_a_check_that_still_runs_is_ended_before_the_retry_starts() -> None:
    play = Playbook(evaluating()) >> started << "follow logs/1-unit_test"
    play = play >> failed(obligations(full(), play.task)[1], "no disk") << "stop logs/1-unit_test" << "tell blocked"
    play = play >> retry >> admitted >> judged() << "check unit_test in logs/2-unit_test"
    assert play.task.evaluation.results == {}


def test_a_failed_delivery_is_retried() -> None:
    play = Playbook(at("COMPLETION", NextAction.DELIVERY))
    play = play >> failed(obligations(full(), play.task)[0], "no remote") << "tell blocked"
    assert play >> retry >> admitted << "deliver c2"


def test_requests_from_before_the_halt_stay_open_after_it() -> None:
    play = Playbook(interactive()) >> asking(question()) << "freeze agents/1" << "wake in 1800 s"
    play = play << "tell question_asked"
    freeze = obligations(full(), play.task)[1]
    play = play >> failed(freeze, "no cgroup") << "interrupt agents/1" << "tell blocked" >> exited >> retry
    play = play << "wake in 1800 s"
    assert play.task.agent.blocked_by is PauseReason.QUESTION
    play = play >> answered(1, RequestStatus.ANSWERED, "left") >> admitted << "resume planner 2"


@pytest.mark.parametrize("state", [at_work, a_task])
def test_only_a_blocked_task_can_be_retried(state: Callable[[], Task]) -> None:
    with pytest.raises(InvalidTransition) as refused:
        machine.decide(full(), state(), retry(state(), state().updated_at))
    assert refused.value.request == "retry"


# Drafts


def draft() -> Playbook:
    return Playbook.submitted(replace(a_task(), status=TaskStatus.DRAFT))


def test_a_draft_starts_nothing_until_it_is_submitted() -> None:
    play = draft() >> admitted >> alarm
    assert not play.task.wants_slot
    play = play >> sent_off
    assert play.task.wants_slot
    assert play >> admitted << "prepare the workspace"


def test_a_draft_is_submitted_once_and_may_be_discarded() -> None:
    play = draft()
    assert (Playbook(play.task) >> cancel).task.status is TaskStatus.CANCELLED
    play = play >> sent_off
    with pytest.raises(InvalidTransition) as refused:
        machine.decide(full(), play.task, sent_off(play.task, play.now))
    assert refused.value.request == "submit"


# Tasks parked by a user, and crossing events


def test_a_user_may_end_the_process_with_the_pause() -> None:
    play = Playbook(at_work()) >> pause(park=True) << "stop agents/1" >> frozen >> interrupted >> exited
    assert (play.task.next_action, play.task.agent.blocked_by) == (NextAction.RETRY, PauseReason.USER)


@pytest.mark.parametrize("owed", [NextAction.AGENT, NextAction.TURN, NextAction.GATE, NextAction.STOP])
def test_a_process_may_be_parked_at_any_next_action_and_nothing_is_lost(owed: NextAction) -> None:
    task = at(
        "DESIGN" if owed is not NextAction.STOP else "IMPLEMENTATION",
        owed if owed is not NextAction.AGENT else NextAction.TURN,
    )
    play = Playbook(at("ANALYSIS", NextAction.AGENT) if owed is NextAction.AGENT else task) >> pause(park=True)
    play = play << "follow agents/1" << "stop agents/1" if owed is NextAction.AGENT else play
    play = play << "stop agents/1" if owed in (NextAction.TURN, NextAction.GATE) else play
    play = play >> started >> exited
    assert play.task.run is None or play.task.run.folder == "agents/2"
    assert play.task.failures.total == 0


def test_a_check_is_not_parked() -> None:
    play = Playbook(evaluating()) >> started << "follow logs/1-unit_test" >> pause(park=True)
    assert play << "freeze logs/1-unit_test" >> frozen >> later(9000) >> alarm
