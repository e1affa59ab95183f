"""Pause, resume and cancel in every state, and the events that cross them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.errors import InvalidTransition
from tests.unit.playbook import (
    Happening,
    Playbook,
    a_task,
    admitted,
    alarm,
    at,
    at_work,
    cancel,
    daemon_started,
    delivered,
    evaluating,
    exited,
    finished,
    freeze_failed,
    frozen,
    full,
    judged,
    later,
    looked,
    pause,
    ready,
    resume,
    started,
    thawed,
)

ASKED: dict[str, Happening] = {"pause": pause(), "resume": resume(), "cancel": cancel}
PRESSURE = PauseReason.PRESSURE


def pending() -> Task:
    return Playbook.submitted(a_task()).task


def still() -> Task:
    """Return a task whose agent was frozen by a user."""
    return (Playbook(at_work()) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s").task


def short_of_room() -> Task:
    return (Playbook(at_work()) >> pause(PRESSURE) << "freeze agents/1" >> frozen << "wake in 1800 s").task


def queueing() -> Task:
    return (Playbook(still()) >> resume()).task


def cancelled() -> Task:
    return (Playbook(pending()) >> cancel).task


def blocked() -> Task:
    return (Playbook(replace(at_work(), budgets={})) >> exited << "tell blocked").task


def completed() -> Task:
    return at("COMPLETION", NextAction.NOTHING)


STATES = [
    (pending, ("pause", "cancel")),
    (at_work, ("pause", "cancel")),
    (still, ("resume", "cancel")),
    (short_of_room, ("pause", "resume", "cancel")),
    (queueing, ("pause", "cancel")),
    (blocked, ("retry", "cancel")),
    (cancelled, ("archive", "delete")),
    (completed, ("archive", "delete")),
]


@pytest.mark.parametrize("action", ASKED)
@pytest.mark.parametrize(("state", "actions"), STATES)
def test_users_may_send_exactly_the_requests_in_the_table(
    state: Callable[[], Task], actions: tuple[str, ...], action: str
) -> None:
    task = state()
    assert allowed(task) == actions
    if action in actions:
        after, _ = machine.decide(full(), task, ASKED[action](task, task.updated_at))
        assert after.seq == task.seq + 1
        return
    before = replace(task)
    with pytest.raises(InvalidTransition) as caught:
        machine.decide(full(), task, ASKED[action](task, task.updated_at))
    assert (caught.value.request, caught.value.allowed, task) == (action, actions, before)
    can = ", ".join(actions) or "nothing"
    assert str(caught.value) == f"cannot {action} a task that is {task.status} in {task.stage}; allowed now: {can}"


def test_a_pause_freezes_and_a_resume_waits_for_a_place_before_it_thaws() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s"
    assert not play.task.holds_slot
    play = play >> resume()
    assert play.task.wants_slot
    play = play >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "wake in 3600 s"
    assert (play.task.agent.status, play.task.agent.blocked_by) == (AgentStatus.RUNNING, None)


def test_paused_time_does_not_count_against_the_turn() -> None:
    play = Playbook(still()) >> later(1700) >> alarm >> resume() >> admitted << "thaw agents/1" >> alarm
    play = play >> thawed << "turn 1 of 1" << "wake in 3600 s"
    assert play.task.agent.turn.deadline == play.now + later(3600)


def test_a_thaw_after_the_turn_sets_no_deadline() -> None:
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS"
    play = play >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s"
    play = play >> resume() >> admitted << "thaw agents/1" >> thawed << "look at ANALYSIS"
    assert play.task.agent.turn.deadline is None


def test_a_command_that_ran_out_of_time_while_frozen_is_run_again_even_if_the_turn_ended_before_its_thaw_was_seen() -> (
    None
):
    working = at_work()
    busy = working.with_turn(replace(working.agent.turn, open_tools=1))
    play = Playbook(busy) >> pause() << "freeze agents/1" >> frozen << "wake in 1800 s"
    play = play >> resume() >> admitted << "thaw agents/1"
    late = play.task.with_turn(replace(play.task.agent.turn, open_tools=0, timed_out=("make test",)))
    play = Playbook(late) >> finished() >> thawed << "turn 2 of 1" << "wake in 3600 s"
    assert "make test" in play.task.feedback[0]


def test_an_agent_that_was_starting_when_the_pause_came_is_frozen_once_it_exists() -> None:
    play = Playbook(at("ANALYSIS", NextAction.AGENT)) >> pause()
    play = play >> started << "follow agents/1" << "freeze agents/1" >> frozen << "wake in 1800 s"
    play = play >> resume() >> admitted << "thaw agents/1" >> thawed << "turn 1 of 1" << "wake in 3600 s"
    assert play.task.agent.status is AgentStatus.RUNNING


def test_an_agent_found_alive_in_a_paused_task_after_a_restart_is_frozen() -> None:
    play = Playbook(at("ANALYSIS", NextAction.AGENT)) >> pause()
    assert play >> daemon_started << "follow agents/1" << "freeze agents/1"


def test_a_freeze_that_comes_after_the_resume_is_undone() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> resume()
    play = play >> admitted << "turn 1 of 1" << "wake in 3600 s"
    assert play >> frozen << "thaw agents/1"


def test_a_run_that_cannot_be_frozen_is_stopped_and_restarted_on_resume() -> None:
    play = (
        Playbook(at_work())
        >> pause() << "freeze agents/1"
        >> freeze_failed << "interrupt agents/1"
        >> exited
        >> later(60) >> alarm
        >> resume()
        >> admitted << "wake in -60 s"
        >> alarm << "resume planner 2"
    )  # fmt: skip
    assert play.task.failures.total == 0


def test_a_result_that_crosses_the_pause_is_recorded_and_evaluated_later() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> finished() >> frozen << "wake in 1800 s"
    assert play.task.next_action is NextAction.GATE
    assert play >> resume() >> admitted << "thaw agents/1" >> thawed << "look at ANALYSIS"


def test_a_gate_result_that_crosses_the_pause_advances_the_task_but_starts_nothing() -> None:
    play = Playbook(at("TICKET_INTAKE", NextAction.GATE)) >> pause() >> looked()
    assert (play.task.stage, play.task.next_action, play.task.is_paused) == ("ANALYSIS", NextAction.AGENT, True)
    assert play >> resume() >> admitted << "start planner 1"


def test_a_frozen_agent_whose_stage_is_done_is_thawed_and_ended() -> None:
    play = (
        Playbook(at("DESIGN", NextAction.GATE))
        >> pause()
        << "freeze agents/1"
        >> frozen
        << "wake in 1800 s"
        >> looked()
    )
    play = play >> resume() >> admitted << "thaw agents/1" >> thawed << "stop agents/1"
    assert play >> exited << "start implementer 2"


def test_checks_are_paused_too() -> None:
    play = Playbook(evaluating(Verdict.PASS)) >> started << "follow logs/1-lint"
    play = play >> pause() << "freeze logs/1-lint" >> frozen >> resume() >> admitted << "thaw logs/1-lint"
    assert play.task.agent.status is AgentStatus.IDLE
    assert play >> thawed << "check lint in logs/1-lint" >> judged() << "deliver c2"


def test_a_check_that_ends_as_the_pause_comes_is_kept() -> None:
    play = Playbook(evaluating()) >> pause() >> judged()
    assert play >> resume() >> admitted << "check lint in logs/1-lint"


def test_a_check_lost_while_frozen_is_run_again_in_another_folder_without_using_a_retry() -> None:
    play = Playbook(evaluating(Verdict.PASS)) >> started << "follow logs/1-lint" >> pause() << "freeze logs/1-lint"
    play = play >> frozen >> judged(None) >> resume() >> admitted << "wake in 0 s"
    decision = play.task.seq
    play = play >> alarm << f"check lint in logs/1-lint-{decision}"
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)


def test_a_users_pause_of_a_task_short_of_resources_outlasts_the_shortage() -> None:
    play = Playbook(short_of_room()) >> pause() >> resume(PRESSURE)
    assert (play.task.agent.blocked_by, play.task.wants_slot) == (PauseReason.USER, False)


def test_a_shortage_does_not_take_over_a_users_pause() -> None:
    task = still()
    assert (Playbook(task) >> pause(PRESSURE) >> resume(PRESSURE)).task is task


def test_a_user_may_queue_a_task_that_was_short_of_resources() -> None:
    play = Playbook(short_of_room()) >> resume()
    assert play.task.wants_slot
    assert play >> resume(PRESSURE) >> admitted << "thaw agents/1"


def test_the_end_of_a_shortage_queues_a_task_automatically() -> None:
    assert (Playbook(short_of_room()) >> resume(PRESSURE)).task.wants_slot


def test_a_task_without_a_place_ignores_a_shortage() -> None:
    task = pending()
    assert (Playbook(task) >> pause(PRESSURE)).task is task


@pytest.mark.parametrize("task", [at_work(), still()], ids=["at work", "frozen"])
def test_a_cancelled_task_ends_its_agent_and_stays_cancelled(task: Task) -> None:
    play = Playbook(task) >> cancel << "interrupt agents/1"
    play = play >> finished() << "stop agents/1" >> exited >> alarm
    assert (play.task.status, play.task.run, play.task.next_action) == (TaskStatus.CANCELLED, None, NextAction.NOTHING)


def test_an_agent_that_was_starting_when_its_task_was_cancelled_is_stopped() -> None:
    play = Playbook(at("ANALYSIS", NextAction.AGENT)) >> cancel << "stop agents/1" >> started << "follow agents/1"
    assert (play >> exited).task.run is None


def test_a_check_of_a_cancelled_task_is_stopped_and_its_result_dropped() -> None:
    play = Playbook(evaluating()) >> cancel << "stop logs/1-unit_test" >> judged()
    assert (play.task.run, play.task.evaluation.results) == (None, {})


def test_a_worktree_that_is_ready_too_late_starts_nothing() -> None:
    play = Playbook(at("TICKET_INTAKE", NextAction.WORKSPACE)) >> cancel
    assert play >> ready


def test_a_branch_delivered_while_paused_completes_the_task_and_ends_the_pause() -> None:
    play = Playbook(at("COMPLETION", NextAction.DELIVERY)) >> pause() >> delivered << "tell completed"
    assert (play.task.status, play.task.agent.status, play.task.agent.blocked_by) == (
        TaskStatus.COMPLETED,
        AgentStatus.COMPLETED,
        None,
    )


@pytest.mark.parametrize("happening", [frozen, freeze_failed, thawed])
def test_events_of_a_run_that_has_not_been_reported_as_started_wait_for_its_start(happening: Happening) -> None:
    task = at("ANALYSIS", NextAction.AGENT)
    assert (Playbook(task) >> happening).task is task
    assert Playbook(task) >> happening >> started << "follow agents/1" << "turn 1 of 1" << "wake in 3600 s"


def test_a_run_that_could_not_be_frozen_in_time_is_stopped_at_the_next_pause() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> resume()
    play = play >> admitted << "turn 1 of 1" << "wake in 3600 s" >> freeze_failed
    assert play.task.run is not None
    assert play.task.run.process is ProcessState.UNFREEZABLE
    assert play >> pause() << "interrupt agents/1"


def test_a_task_that_was_paused_before_it_started_queues_again() -> None:
    play = Playbook(pending()) >> pause()
    assert not play.task.wants_slot
    assert (play >> resume()).task.wants_slot


def test_an_agent_that_is_paused_before_its_thaw_is_recorded_is_frozen_again_also_after_a_crash() -> None:
    play = Playbook(still()) >> resume() >> admitted << "thaw agents/1" >> pause() << "freeze agents/1"
    task = play.task
    assert Playbook(task) >> thawed >> frozen << "wake in 1800 s"
    overtaken = Playbook(task) >> frozen << "wake in 1800 s" >> thawed << "freeze agents/1"
    assert overtaken
    assert Playbook(task) >> daemon_started << "follow agents/1" << "freeze agents/1"
