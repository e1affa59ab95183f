"""The caps of a parent bound what it and all tasks below it spend together."""

from dataclasses import replace
from datetime import timedelta

from orchestrator.core.decide import machine
from orchestrator.core.schedule.admission import (
    Capacity,
    SchedulerSnapshot,
    allowance_for,
    tasks_to_admit,
    tasks_to_pause,
    tasks_to_resume,
    turns_to_interrupt,
)
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.shared_budget import spent_by_all
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.budget import NO_CAPS, Caps, Spending, TaskSpending
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from tests.fakes.world import START
from tests.unit.playbook import at, at_work, full, interrupted, looked

DAY = "2026-11-21"


def used(task: Task, usd: float = 0.0, **others: float) -> Task:
    """Return the task after it has spent this much."""
    spent = Spending(usd=usd, **others)  # type: ignore[arg-type]  # tokens and turns are whole in each test
    return replace(task, spending=replace(task.spending, by_day={DAY: spent}))


def parent(caps: Caps, name: str = "P", children: str = "AB", usd: float = 0.0) -> Task:
    """Return a parent that waits for its children."""
    made = tuple(
        Child(plan=ChildPlan(key=key, title=key), task=f"{name}.{key}", status=ChildStatus.SUBMITTED)
        for key in children
    )
    task = replace(at_work(caps=caps), id=name, children=made, next_action=NextAction.CHILDREN, run=None)
    agent = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.CHILDREN)
    return used(replace(task, agent=agent), usd)


def child(name: str, usd: float = 0.0, **others: float) -> Task:
    """Return a child whose agent is in a turn."""
    above = name.rpartition(".")[0]
    return used(replace(at_work(), id=name, parent=above), usd, **others)


def waiting(name: str, usd: float = 0.0) -> Task:
    """Return a child that waits for a slot."""
    task = child(name, usd)
    agent = replace(
        task.agent, status=AgentStatus.PAUSED, blocked_by=None, turn=replace(task.agent.turn, deadline=None)
    )
    return replace(task, agent=agent, next_action=NextAction.AGENT, run=None)


def held(name: str, usd: float = 0.0) -> Task:
    """Return a child that is paused until a budget allows more."""
    task = waiting(name, usd)
    return replace(task, agent=replace(task.agent, blocked_by=PauseReason.BUDGET))


def snapshot(*tasks: Task, turn_usd: float = 0.0, unheard: dict[str, Spending] | None = None) -> SchedulerSnapshot:
    capacity = Capacity(places=5, turn_usd=turn_usd)
    return SchedulerSnapshot(
        tasks=LiveTasks(tasks), ended={}, capacity=capacity, now=START + timedelta(hours=1), unheard=unheard or {}
    )


def test_a_child_begins_a_turn_only_while_something_is_left_for_the_whole_family() -> None:
    family = [parent(Caps(usd=5.0), usd=1.0), child("P.A", 3.0)]
    assert tasks_to_admit(snapshot(*family, waiting("P.B", 0.5))) == ["P.B"]
    assert tasks_to_admit(snapshot(*family, waiting("P.B", 1.0))) == []
    assert tasks_to_admit(snapshot(*family, waiting("P.B", 1.0), waiting("other"))) == ["other"]


def test_what_ended_children_spent_stays_on_the_bill() -> None:
    spending = TaskSpending(by_day={DAY: Spending(usd=1.0)}, by_children=Spending(usd=3.5, tokens=10))
    family = replace(parent(Caps(usd=5.0)), spending=spending)
    assert tasks_to_admit(snapshot(family, waiting("P.B", 0.4))) == ["P.B"]
    assert tasks_to_admit(snapshot(family, waiting("P.B", 0.5))) == []
    assert spent_by_all(family, [family, child("P.B", 0.5)], {}) == Spending(usd=5.0, tokens=10)


def test_a_child_that_just_ended_counts_once_before_and_after_its_parent_heard_of_it() -> None:
    family = parent(Caps(usd=5.0))
    ended = replace(child("P.A", 4.0), status=TaskStatus.COMPLETED, run=None, next_action=NextAction.NOTHING)
    for live in ([], [ended]):  # it stays live until people are told of it
        now = snapshot(family, *live, waiting("P.B", 0.5), unheard={"P.A": Spending(usd=4.0)})
        assert {budget.spent.usd for budget in now.shared_budgets} == {4.5}
    heard = replace(family, spending=replace(family.spending, by_children=Spending(usd=4.0)))
    assert {budget.spent.usd for budget in snapshot(heard, ended, waiting("P.B", 0.5)).shared_budgets} == {4.5}


def test_every_kind_of_cap_is_shared() -> None:
    for caps, spent in (
        (Caps(tokens=100), {"tokens": 60}),
        (Caps(turns=4), {"turns": 2}),
        (Caps(hours=1.0), {"seconds": 1800.0}),
    ):
        family = [parent(caps), replace(waiting("P.A"), spending=child("P.A", **spent).spending)]
        assert tasks_to_admit(snapshot(*family)) == ["P.A"]
        both = [*family, used(child("P.B"), **spent)]
        assert tasks_to_admit(snapshot(*both)) == []


def test_running_turns_reserve_what_they_may_use() -> None:
    family = [parent(Caps(usd=1.0)), child("P.A"), waiting("P.B", 0.5)]
    assert tasks_to_admit(snapshot(*family, turn_usd=0.5)) == []
    why = explain(family[2], snapshot(*family, turn_usd=1.0))
    assert why.facts[0] == "what is left of the budget of P and its children is reserved for their running turns"
    assert why.next == "it continues by itself when another of these turns has ended"
    assert tasks_to_admit(snapshot(*family, turn_usd=0.2)) == ["P.B"]
    counted = [used(parent(Caps(turns=5)), turns=3), child("P.A"), waiting("P.B"), waiting("P.C")]
    assert tasks_to_admit(snapshot(*counted)) == ["P.B"]


def test_a_raised_budget_of_the_parent_frees_its_children() -> None:
    family = parent(Caps(usd=5.0))
    assert list(tasks_to_resume(snapshot(family, held("P.A", 5.0), held("P.B")))) == []
    raised = replace(family, policy=replace(family.policy, caps=Caps(usd=6.0)))
    freed = [("P.A", PauseReason.BUDGET), ("P.B", PauseReason.BUDGET)]
    assert list(tasks_to_resume(snapshot(raised, held("P.A", 5.0), held("P.B")))) == freed


def test_a_child_between_two_turns_is_paused_and_one_in_a_turn_is_interrupted() -> None:
    between = child("P.B", 2.0)
    between = replace(between.with_turn(replace(between.agent.turn, deadline=None)), next_action=NextAction.AGENT)
    busy = child("P.A", 2.0)
    busy = busy.with_turn(replace(busy.agent.turn, usd=1.5, tokens=10))
    now = snapshot(parent(Caps(usd=5.0)), busy, between)
    text = "the budget of P and its children is used up: $5.50 of $5.00 are spent"
    assert list(turns_to_interrupt(now)) == [("P.A", busy.agent.turn.number, text)]
    assert list(tasks_to_pause(now)) == [("P.B", PauseReason.BUDGET, text)]
    assert list(turns_to_interrupt(snapshot(parent(Caps(usd=6.0)), busy, between))) == []


def test_the_next_turn_of_a_living_agent_waits_when_others_have_used_the_budget_up() -> None:
    busy = child("P.A", 1.0)
    for spent_by_other, waits in ((3.5, False), (4.0, True)):
        allowance = allowance_for(busy, snapshot(parent(Caps(usd=5.0)), busy, child("P.B", spent_by_other)))
        after, _ = machine.decide(full(), busy, interrupted(busy, busy.updated_at), allowance)
        assert after.is_paused is waits
        assert after.agent.blocked_by is (PauseReason.BUDGET if waits else None)


def test_what_a_child_did_is_still_judged_but_no_turn_follows_when_the_budget_is_used_up() -> None:
    done = replace(at("ANALYSIS", NextAction.GATE), id="P.A", parent="P")
    now = snapshot(parent(Caps(usd=5.0)), done, child("P.B", 5.0))
    assert list(tasks_to_pause(now)) == []
    after, _ = machine.decide(full(), done, looked(Evidence())(done, done.updated_at), allowance_for(done, now))
    assert (after.next_action, after.agent.blocked_by) == (NextAction.TURN, PauseReason.BUDGET)
    checked, _ = machine.decide(full(), done, looked()(done, done.updated_at), allowance_for(done, now))
    assert checked.stage == "PLANNING"


def test_the_budget_of_a_grandparent_bounds_grandchildren_and_so_does_that_of_a_parent() -> None:
    top, middle, leaf = parent(Caps(usd=5.0), children="A"), parent(Caps(usd=3.0), "P.A", "X"), waiting("P.A.X", 2.0)
    middle = replace(middle, parent="P")
    assert tasks_to_admit(snapshot(top, middle, leaf)) == ["P.A.X"]
    assert tasks_to_admit(snapshot(used(top, 3.0), middle, leaf)) == []
    assert tasks_to_admit(snapshot(top, used(middle, 1.0), leaf)) == []
    uncapped = replace(middle, policy=replace(middle.policy, caps=NO_CAPS))
    assert tasks_to_admit(snapshot(used(top, 2.0), used(uncapped, 0.9), leaf)) == ["P.A.X"]
    assert tasks_to_admit(snapshot(used(top, 2.0), used(uncapped, 1.0), leaf)) == []


def test_why_names_the_budget_of_the_parent_and_how_to_raise_it() -> None:
    family, waits = parent(Caps(usd=5.0, turns=9)), held("P.A", 5.0)
    now = snapshot(family, waits, waiting("P.B"))
    text = "the budget of P and its children is used up: $5.00 of $5.00 are spent"
    assert explain(waits, now).facts[0] == text
    assert explain(waits, now).next == "orchestrator budget P --usd AMOUNT, or cancel it"
    assert explain(waiting("P.B"), now).next == "orchestrator budget P --usd AMOUNT, or cancel it"
    assert text in explain(family, now).facts
    assert explain(family, now).next.endswith("orchestrator budget P --usd AMOUNT, or cancel it")


def test_a_task_without_a_capped_parent_has_no_shared_budget() -> None:
    assert snapshot(parent(NO_CAPS), child("P.A", 9.0), child("other", 9.0)).shared == {}
    assert snapshot(child("gone.A", 9.0)).shared == {}
