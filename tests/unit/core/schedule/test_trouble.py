"""When agents' failures are blamed on the installation, and when not."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from orchestrator.core.events import events
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot, tasks_to_admit
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.trouble import CLOSED, Breaker, Trouble, TroubleKind
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import NextAction, Task
from tests.fakes.tasks import submitted
from tests.fakes.world import START
from tests.unit.playbook import Happening, Playbook, admitted, alarm, at_work, exited, finished, lost, resume, session

NO_SUCH_MODEL = finished("There's an issue with the selected model", error_class=ErrorClass.MODEL)
UNKNOWN_OPTION = finished("unknown option", error_class=ErrorClass.UNKNOWN)


def fresh() -> Task:
    """A task whose agent was told its first turn, and has not begun its session."""
    task = at_work()
    return replace(task, agent=replace(task.agent, session=replace(task.agent.session, is_known=False)))


Told = Sequence[tuple[str, Happening]]


def after(told: Told) -> Breaker:
    """The breaker after these tasks, all in their first turn before a session began, met this one after the other."""
    breaker = CLOSED
    for name, happening in told:
        task = replace(fresh(), id=name)
        event = happening(task, START)
        if isinstance(event, events.AgentExited | events.TurnFinished) and breaker.blames_installation(task, event):
            event = replace(event, blames_installation=True)
        breaker = breaker.after(task, event)
    return breaker


def kind(told: Told) -> str | None:
    trouble = after(told).trouble(START)
    return trouble.kind if trouble else None


@pytest.mark.parametrize("failure", [exited, NO_SUCH_MODEL, UNKNOWN_OPTION])
def test_agents_of_two_tasks_that_fail_before_they_work_are_a_fault_of_the_installation(failure: Happening) -> None:
    assert kind([("A", failure)]) is None
    assert kind([("A", failure), ("A", failure), ("A", failure)]) is None, "it may be this task's own fault"
    assert kind([("A", failure), ("B", failure)]) == "installation"
    assert kind([("A", failure), ("C", finished()), ("B", failure)]) is None


def test_what_an_agent_does_after_its_session_began_is_no_fault_of_the_installation() -> None:
    begun = Playbook(fresh()) >> session
    for happening in (exited, UNKNOWN_OPTION):
        breaker = after([("A", happening)])
        assert not breaker.blames_installation(begun.task, happening(begun.task, START))
    assert kind([("A", lost), ("B", lost)]) is None


def test_a_session_refutes_a_fault_of_the_program_but_not_one_of_its_model() -> None:
    assert kind([("A", exited), ("B", exited), ("C", session)]) is None
    assert kind([("A", NO_SUCH_MODEL), ("B", session), ("B", NO_SUCH_MODEL)]) == "installation"
    assert kind([("A", NO_SUCH_MODEL), ("B", NO_SUCH_MODEL), ("C", session)]) == "installation"
    assert kind([("A", NO_SUCH_MODEL), ("B", NO_SUCH_MODEL), ("C", finished())]) is None


def test_a_task_that_still_fails_after_the_program_was_found_to_work_is_to_blame_itself() -> None:
    healed = [("A", exited), ("B", exited), ("C", session)]
    assert kind([*healed, ("A", exited), ("B", exited), ("A", exited)]) is None
    assert kind([*healed, ("C", exited), ("D", exited)]) == "installation", "others can fail by the next fault"
    assert kind([*healed, ("A", finished()), ("B", finished()), ("A", exited), ("B", exited)]) == "installation"


def test_the_installation_is_tried_again_after_pauses_that_grow_and_at_once_when_it_was_changed() -> None:
    breaker = after([("A", exited), ("B", exited)])
    assert breaker.probe_at == START + timedelta(minutes=5)
    assert breaker.trouble(START) == Trouble(
        kind=TroubleKind.INSTALLATION,
        reason="agents cannot work: it was killed; it is tried again at 2026-11-21 22:05:00 UTC",
        met_by=("A", "B"),
    )
    again = after([("A", exited), ("B", exited), ("A", exited)])
    assert (again.probe_at, tuple(again.suspects)) == (START + timedelta(minutes=10), ("B", "A"))
    changed = again.probed_now().trouble(START)
    assert changed is not None
    assert changed.is_probed
    assert CLOSED.probed_now() is CLOSED


def test_a_trouble_is_tried_first_by_a_task_that_has_not_met_it_and_then_by_each_in_turn() -> None:
    def order(*met_by: str) -> list[str]:
        trouble = Trouble(kind=TroubleKind.INSTALLATION, reason="", is_probed=True, met_by=met_by)
        waiting = LiveTasks(submitted(name) for name in ("A", "B", "C"))
        snapshot = SchedulerSnapshot(tasks=waiting, ended={}, capacity=Capacity(), now=START, trouble=trouble)
        return tasks_to_admit(snapshot)

    assert (order(), order("A"), order("A", "B"), order("A", "B", "C"), order("B", "C", "A")) == (
        ["A"], ["B"], ["C"], ["A"], ["B"],
    )  # fmt: skip


def blaming(happening: Happening) -> Happening:
    def event(task: Task, at: datetime) -> events.Event:
        met = happening(task, at)
        assert isinstance(met, events.AgentExited | events.TurnFinished)
        return replace(met, blames_installation=True)

    return event


def test_an_agent_that_failed_by_a_fault_of_the_installation_is_started_again_at_no_cost() -> None:
    play = Playbook(fresh()) >> blaming(exited)
    assert (play.task.next_action, play.task.agent.blocked_by) == (NextAction.RETRY, PauseReason.SERVICE)
    play = play >> resume(PauseReason.SERVICE) >> admitted << "wake in 0 s" >> alarm << "start planner 2"
    assert (play.task.budgets["agent_retries"].used, play.task.failures.total) == (0, 0)


def test_a_turn_that_failed_by_a_fault_of_the_installation_is_repeated_at_no_cost() -> None:
    play = Playbook(fresh()) >> session >> blaming(NO_SUCH_MODEL) << "stop agents/1" >> exited
    assert (play.task.next_action, play.task.agent.blocked_by) == (NextAction.RETRY, PauseReason.SERVICE)
    play = play >> resume(PauseReason.SERVICE) >> admitted << "wake in 0 s" >> alarm << "resume planner 2"
    assert (play.task.budgets["agent_retries"].used, play.task.failures.total) == (0, 0)
