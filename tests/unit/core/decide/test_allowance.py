"""Limits of the account and the day: the decision that ends a turn pauses the task instead of sending another turn."""

from dataclasses import replace
from datetime import datetime

from orchestrator.core.decide import machine
from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot, allowance_for
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NO_CAPS, Caps, Spending
from orchestrator.core.task.task import NextAction, Task
from orchestrator.core.task.usage_limits import EVERYTHING, Allowance
from tests.fakes.world import START
from tests.unit.playbook import Happening, at_work, finished, full, interrupted


def decided(task: Task, happening: Happening, allowance: Allowance) -> tuple[Task, tuple[do.Command, ...]]:
    return machine.decide(full(), task, happening(task, START), allowance)


def sends_turn(commands: tuple[do.Command, ...]) -> bool:
    return any(isinstance(command, do.SendTurn) for command in commands)


def finished_with(tokens: int) -> Happening:
    """Return the end of an interrupted turn that used this many tokens."""

    def happening(task: Task, at: datetime) -> events.Event:
        event = interrupted(task, at)
        assert isinstance(event, events.TurnFinished)
        return replace(event, tokens=tokens)

    return happening


def test_a_turn_follows_another_while_everything_is_allowed() -> None:
    task, commands = decided(at_work(), interrupted, EVERYTHING)
    assert sends_turn(commands)
    assert not task.is_paused


def test_a_refusal_of_the_account_freezes_the_task_before_its_next_turn() -> None:
    for reason in (PauseReason.SERVICE, PauseReason.RATE_LIMIT):
        task, commands = decided(at_work(), interrupted, Allowance(refusal=(reason, "nobody is logged in")))
        assert not sends_turn(commands)
        assert do.FreezeRun(folder="agents/1") in commands
        assert (task.agent.blocked_by, task.next_action) == (reason, NextAction.TURN)
        assert not task.agent.setbacks.limit_waits, "it reached no limit itself"


def test_the_turn_that_ends_counts_against_the_day() -> None:
    day = Caps(tokens=1000)
    spent = Spending(tokens=900)
    cheap = finished_with(tokens=99)
    dear = finished_with(tokens=100)
    assert sends_turn(decided(at_work(), cheap, Allowance(day=day, spent_by_others=spent))[1])
    task, commands = decided(at_work(), dear, Allowance(day=day, spent_by_others=spent))
    assert (task.agent.blocked_by, sends_turn(commands)) == (PauseReason.BUDGET, False)


def test_a_task_that_starts_no_turn_is_not_paused() -> None:
    task, _ = decided(at_work(), finished(), Allowance(refusal=(PauseReason.SERVICE, "refused")))
    assert (task.next_action, task.is_paused) == (NextAction.GATE, False)


def test_an_allowance_excludes_what_the_task_itself_has_reserved() -> None:
    one, other = at_work(), replace(at_work(), id="LOCAL-other")
    capacity = Capacity(places=2, day=Caps(usd=5.0), turn_usd=1.5)
    snapshot = SchedulerSnapshot(tasks=LiveTasks((one, other)), ended={}, capacity=capacity, now=START)
    assert allowance_for(one, snapshot) == Allowance(day=capacity.day, spent_by_others=Spending(usd=1.5))
    unlimited = replace(snapshot, capacity=replace(capacity, day=NO_CAPS))
    assert allowance_for(one, unlimited) == EVERYTHING
