"""Caps on the cost of a task: they pause it before the next turn, end a running turn, and are lifted by a raise."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.decide import lifecycle, machine
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.schedule.admission import (
    Capacity,
    SchedulerSnapshot,
    day_used_up,
    tasks_to_pause,
    tasks_to_resume,
    turns_to_interrupt,
)
from orchestrator.core.schedule.admission import tasks_to_admit as let_in
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import PauseReason, TurnProgress
from orchestrator.core.task.budget import (
    Caps,
    Spending,
    TaskSpending,
    reached_cap,
    seconds_left,
    usd_left,
)
from orchestrator.core.task.task import NextAction, Task
from orchestrator.errors import InvalidTransition
from tests.unit.playbook import (
    Playbook,
    a_task,
    admitted,
    alarm,
    asking,
    at,
    at_work,
    caps,
    exited,
    finished,
    frozen,
    full,
    interactive,
    interrupted,
    later,
    limit_hit,
    looked,
    pause,
    question,
    resume,
    started,
    thawed,
)

BUDGET = PauseReason.BUDGET


@pytest.mark.parametrize(
    ("spent", "caps_", "words"),
    [
        (Spending(usd=1.0), Caps(usd=1.0), "$1.00 of $1.00 are spent"),
        (Spending(tokens=1200), Caps(tokens=1000), "1,200 of 1,000 tokens are used"),
        (Spending(turns=3), Caps(turns=3), "3 of 3 turns are used"),
        (Spending(seconds=5400), Caps(hours=1.5), "1.5 of 1.5 hours of work are used"),
        (Spending(usd=0.99, tokens=999, turns=2, seconds=5399.9), Caps(usd=1, tokens=1000, turns=3, hours=1.5), None),
        (Spending(usd=10**6), Caps(), None),
        (Spending(seconds=444.444), Caps(hours=0.1234567), "0.1 of 0.123457 hours of work are used"),
    ],
)
def test_a_cap_is_reached_when_it_is_fully_used(spent: Spending, caps_: Caps, words: str | None) -> None:
    assert reached_cap(spent, caps_) == words


def test_what_is_left_is_never_negative() -> None:
    assert (usd_left(Spending(usd=2.0), Caps(usd=1.5)), usd_left(Spending(usd=0.1), Caps(usd=0.3))) == (0.0, 0.2)
    assert (seconds_left(Spending(seconds=9), Caps(hours=0)), seconds_left(Spending(), Caps(hours=1))) == (0.0, 3600.0)
    assert (usd_left(Spending(), Caps()), seconds_left(Spending(), Caps())) == (None, None)
    assert Spending(usd=0.1, turns=1) + Spending(usd=0.2, tokens=5) == Spending(usd=0.3, tokens=5, turns=1)


def at_its_cap(limits: Caps) -> Playbook:
    """Return a task whose turn succeeded and used up its cap."""
    play = Playbook(at_work(caps=limits)) >> later(60) >> finished() << "look at ANALYSIS"
    return play >> looked() << "freeze agents/1"


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (Caps(usd=0.25), "--usd AMOUNT"),
        (Caps(tokens=1000), "--tokens NUMBER"),
        (Caps(turns=1), "--turns NUMBER"),
        (Caps(hours=1 / 60), "--hours NUMBER"),
        (Caps(usd=0.2, turns=1, tokens=9999), "--usd AMOUNT --turns NUMBER"),
    ],
)
def test_the_next_turn_does_not_start_beyond_a_cap_and_starts_when_the_cap_is_raised(
    limits: Caps, options: str
) -> None:
    play = at_its_cap(limits) >> frozen << "wake in 1800 s"
    assert play.task.agent.blocked_by is BUDGET
    why = explain(play.task, snapshot(play.task))
    assert why.next == f"orchestrator budget {play.task.id} {options}, or cancel it"
    assert play >> caps(limits)
    assert play.task.agent.blocked_by is BUDGET, "it was not raised"
    play = play >> caps(Caps())
    assert play >> admitted << "thaw agents/1" >> thawed << "turn 2 of 1" << "wake in 3600 s"


def test_a_new_agent_is_not_started_beyond_a_cap() -> None:
    spent = replace(at("DESIGN", NextAction.GATE), spending=TaskSpending(by_day={"2026-11-20": Spending(usd=9.0)}))
    play = Playbook(replace(spent, policy=replace(spent.policy, caps=Caps(usd=9.0)))) >> looked() << "stop agents/1"
    play = play >> exited
    assert (play.task.agent.blocked_by, play.task.next_action) == (BUDGET, NextAction.AGENT)
    assert play >> caps(Caps(usd=10.0)) >> admitted << "start implementer 2"


def test_only_a_higher_cap_resumes_a_task_beyond_its_cap() -> None:
    task = at_its_cap(Caps(turns=1)).task
    assert "resume" not in allowed(task)
    with pytest.raises(InvalidTransition, match=f"1 of 1 turns are used; .* `orchestrator budget {task.id}`"):
        machine.decide(full(), task, resume()(task, task.updated_at))
    raised, _ = machine.decide(full(), task, caps(Caps(turns=2))(task, task.updated_at))
    assert raised.wants_slot


def test_a_pause_during_which_a_cap_is_reached_is_not_followed_by_a_turn() -> None:
    play = (
        Playbook(at_work(caps=Caps(turns=1))) >> pause() << "freeze agents/1" >> finished("no", error_class="refusal")
    )
    play = play >> frozen << "wake in 1800 s" >> resume() >> admitted << "thaw agents/1" >> thawed << "stop agents/1"
    assert (play >> exited).task.agent.blocked_by is BUDGET


def test_a_turn_that_reaches_its_cap_is_ended_by_the_reported_progress() -> None:
    task = at_work(caps=Caps(tokens=5000))
    play = (
        Playbook(replace(task, agent=replace(task.agent, turn=replace(task.agent.turn, tokens=5000))))
        >> alarm
        << "end turn 1 of 1"
    )
    play = play << "wake in 60 s" >> interrupted << "turn 2 of 1" << "wake in 3600 s"
    assert not play.task.is_paused, "the progress reports exceeded the usage"


def at_cost(task: Task, usd: float) -> Task:
    """The task whose running turn has cost so much by now, as far as that can be estimated."""
    return replace(task, agent=replace(task.agent, turn=replace(task.agent.turn, usd=usd)))


def test_a_turn_is_ended_when_its_estimated_cost_reaches_the_cap_and_its_true_cost_decides_what_follows() -> None:
    task = at_work(caps=Caps(usd=0.3))
    assert Playbook(at_cost(task, 0.29)) >> alarm
    cheaper = Playbook(at_cost(task, 0.31)) >> alarm << "end turn 1 of 1" << "wake in 60 s" >> finished("", tool_uses=1)
    cheaper = cheaper << "turn 2 of 1" << "wake in 3600 s"
    assert (cheaper.task.spending.total.usd, cheaper.task.agent.turn.usd) == (0.25, 0.0)
    task = at_work(caps=Caps(usd=0.2))
    dearer = Playbook(at_cost(task, 0.2)) >> alarm << "end turn 1 of 1" << "wake in 60 s" >> finished()
    assert (dearer << "freeze agents/1").task.agent.blocked_by is BUDGET


def test_what_may_be_spent_after_a_usage_limit_is_enforced_within_a_turn() -> None:
    task = at_work()
    task = replace(
        task,
        policy=replace(task.policy, usd_after_limit=0.05),
        spending=TaskSpending(by_day={"2026-11-21": Spending(usd=0.7)}, usd_at_limit=0.7),
    )
    assert Playbook(at_cost(task, 0.04)) >> alarm
    assert Playbook(at_cost(task, 0.06)) >> alarm << "end turn 1 of 1" << "wake in 60 s"


def test_the_money_of_the_day_counts_what_running_turns_have_cost_by_now() -> None:
    first, second = replace(at_cost(at_work(), 0.6), id="A"), replace(at_cost(at_work(), 0.3), id="B")
    day = Capacity(places=3, day=Caps(usd=1.0), turn_usd=0.1)
    assert not list(turns_to_interrupt(replace(snapshot(first, second), capacity=day)))
    assert day_used_up(replace(snapshot(first, second), capacity=day)) is None
    third = replace(at_cost(at_work(), 0.11), id="C")
    over = replace(snapshot(first, second, third), capacity=day)
    assert [(task, words) for task, _, words in turns_to_interrupt(over)] == [
        (name, "the day's budget is used up: $1.01 of $1.00 are spent") for name in "ABC"
    ]
    assert day_used_up(over) is not None


def test_a_task_that_waits_for_the_next_day_says_when_that_begins() -> None:
    waiting = replace(a_task(), id="B")
    spent = replace(snapshot(waiting), capacity=Capacity(day=Caps(usd=1.0)), ended_today=Spending(usd=1.0))
    tomorrow = "by itself when the day is over, at 2026-11-22 00:00 UTC, or when [budget.day] allows more"
    assert explain(waiting, spent).next == f"it starts {tomorrow}"
    held = replace(at_cap_of_day(), id="C")
    spent = replace(snapshot(held), capacity=Capacity(day=Caps(usd=1.0)), ended_today=Spending(usd=1.0))
    assert explain(held, spent).next == f"it continues {tomorrow}"


def at_cap_of_day() -> Task:
    """A task that is paused because the day's budget was used up."""
    play = Playbook(at_work()) >> finished() << "look at ANALYSIS"
    return (play >> pause(BUDGET) << "freeze agents/1").task


def test_a_cap_on_hours_ends_a_turn_in_time_and_does_not_count_paused_time() -> None:
    play = Playbook(at_work(caps=Caps(hours=0.5))) >> later(600) >> pause() << "freeze agents/1" >> frozen
    play = play << "wake in 1800 s" >> later(600) >> resume() >> admitted << "thaw agents/1" >> thawed
    play = play << "turn 1 of 1" << "wake in 1200 s" >> later(1200) >> alarm << "end turn 1 of 1" << "wake in 60 s"
    play = play >> interrupted << "freeze agents/1"
    assert (play.task.spending.total.seconds, play.task.agent.blocked_by) == (1800.0, BUDGET)


def test_a_turn_that_does_not_end_when_its_cap_is_reached_is_interrupted() -> None:
    play = Playbook(at_work(caps=Caps(hours=0.5))) >> later(1800) >> alarm << "end turn 1 of 1" << "wake in 60 s"
    play = play >> later(60) >> alarm << "interrupt agents/1"
    assert play.task.failures.entries[0].summary == "it did not end its turn when it was told to"


@given(spent=st.floats(0, 3), hours=st.floats(0.0006, 2))
def test_a_turn_that_works_until_its_deadline_has_used_up_its_hours(spent: float, hours: float) -> None:
    task = at_work(caps=Caps(hours=hours), turn_timeout=9000)
    task = replace(task, spending=TaskSpending(by_day={"2026-11-20": Spending(seconds=spent)}))
    worked = (lifecycle.deadline(task, task.updated_at) - task.updated_at).total_seconds()
    assert reached_cap(Spending(seconds=spent + worked), task.policy.caps) is not None


@pytest.mark.parametrize(("hours", "wake"), [(2.0, "wake in 3600 s"), (0.25, "wake in 300 s")])
def test_a_cap_on_hours_that_changes_during_a_turn_applies_to_the_time_left(hours: float, wake: str) -> None:
    play = Playbook(at_work(caps=Caps(hours=0.5))) >> later(600) >> caps(Caps(hours=hours)) << wake
    assert play.task.spending.total.seconds == 600.0


def test_a_turn_that_the_cli_ended_at_a_cap_pauses_the_task_and_ends_the_process() -> None:
    play = Playbook(at_work(caps=Caps(usd=0.25))) >> finished("budget", error_class="budget") << "stop agents/1"
    assert play.task.agent.blocked_by is BUDGET
    play = play >> exited >> caps(Caps(usd=9.0)) >> admitted << "wake in 0 s" >> alarm << "resume planner 2"
    assert play.task.failures.total == 0


def test_a_turn_that_the_cli_ended_although_money_was_left_uses_a_retry() -> None:
    play = Playbook(at_work(caps=Caps(usd=99.0))) >> finished("budget", error_class="budget") << "stop agents/1"
    assert play.task.budgets["agent_retries"].used == 1


def test_spending_after_a_limit_counts_from_the_limit_and_from_a_users_decision() -> None:
    play = Playbook(at_work(usd_after_limit=0.2)) >> limit_hit(60) << "freeze agents/1" << "wake in 112 s"
    play = play << "tell limit_reached" >> later(112) >> alarm >> admitted << "turn 2 of 1" << "wake in 3600 s"
    play = play >> finished() << "look at ANALYSIS" >> looked() << "freeze agents/1"
    assert "$0.25 of the $0.20 that may follow a usage limit" in explain(play.task, snapshot(play.task)).facts[0]
    play = play >> caps(Caps())
    assert play >> admitted << "turn 3 of 1" << "wake in 3600 s"


def test_a_question_that_waits_at_a_cap_still_waits_when_the_cap_is_raised() -> None:
    play = Playbook(interactive(caps=Caps(turns=1))) >> asking(question()) << "freeze agents/1" << "wake in 1800 s"
    play = play << "tell question_asked" >> finished() >> frozen
    assert play.task.agent.blocked_by is BUDGET
    assert (play >> caps(Caps())).task.agent.blocked_by is PauseReason.QUESTION


# All tasks of a day

DAY = Capacity(places=9, day=Caps(usd=10.0), turn_usd=1.0)


def snapshot(*tasks: Task, capacity: Capacity = DAY, hours: float = 0, ended: float = 0.0) -> SchedulerSnapshot:
    now = tasks[0].updated_at + timedelta(hours=hours)
    return SchedulerSnapshot(
        tasks=LiveTasks(tasks), ended={}, capacity=capacity, now=now, ended_today=Spending(usd=ended)
    )


def test_the_possible_cost_of_running_turns_is_reserved() -> None:
    running, new = at_work(), replace(a_task(), id="new")
    assert day_used_up(snapshot(running, ended=8.0)) is None
    assert day_used_up(snapshot(running, ended=9.0)) == "the day's budget is used up: $10.00 of $10.00 are spent"
    assert let_in(snapshot(running, new, ended=8.0)) == ["new"]
    assert let_in(snapshot(running, new, replace(new, id="other"), ended=7.5)) == ["new", "other"]
    assert let_in(snapshot(running, new, replace(new, id="other"), ended=8.0)) == ["new"]
    assert explain(new, snapshot(new, ended=10.0)).facts == ("the day's budget is used up: $10.00 of $10.00 are spent",)


def test_a_task_between_turns_is_paused_for_the_day_and_resumed_on_the_next_even_if_it_was_parked() -> None:
    waits, task = at("ANALYSIS", NextAction.AGENT), at("ANALYSIS", NextAction.GATE)
    assert [(name, by) for name, by, _ in tasks_to_pause(snapshot(waits, ended=10.0))] == [(waits.id, BUDGET)]
    assert not list(tasks_to_pause(snapshot(task, ended=10.0))), "what was done is still judged"
    assert not list(tasks_to_pause(snapshot(at_work(), ended=8.0))), "a running turn comes to its end"
    play = Playbook(task) >> pause(BUDGET) << "freeze agents/1" >> looked() >> frozen << "wake in 1800 s"
    assert not list(tasks_to_resume(snapshot(play.task, ended=10.0)))
    over = explain(play.task, snapshot(play.task, ended=9.75))
    assert over.facts[0] == "the day's budget is used up: $10.00 of $10.00 are spent"
    tomorrow = "it continues by itself when the day is over, at 2026-11-22 00:00 UTC, or when [budget.day] allows more"
    assert over.next == tomorrow
    assert explain(play.task, snapshot(play.task)).facts[0] == "the budget has just come to allow more"
    play = play >> later(1800) >> alarm << "stop agents/1" >> exited
    assert play.task.next_action is NextAction.RETRY
    assert list(tasks_to_resume(snapshot(play.task))) == [(play.task.id, BUDGET)]
    play = play >> resume(BUDGET) >> admitted << "wake in 0 s" >> alarm << "resume planner 2"
    assert play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"


TOKENS, HOURS = Capacity(places=9, day=Caps(tokens=1000)), Capacity(places=9, day=Caps(hours=1))


def in_a_turn(tokens: int) -> Task:
    task = at_work()
    return replace(task, agent=replace(task.agent, turn=replace(task.agent.turn, tokens=tokens)))


@pytest.mark.parametrize(
    ("task", "capacity", "hours", "interrupted"),
    [
        (in_a_turn(999), TOKENS, 0, False),
        (in_a_turn(1000), TOKENS, 0, True),
        (in_a_turn(9), HOURS, 0.9, False),
        (in_a_turn(9), HOURS, 1.0, True),
        (in_a_turn(9), replace(DAY, day=Caps(turns=0)), 0, False),
        (in_a_turn(9), Capacity(), 9, False),
        (in_a_turn(0), HOURS, 9, False),
    ],
)
def test_a_turn_that_uses_up_the_daily_budget_is_interrupted_and_no_other_starts(
    task: Task, capacity: Capacity, hours: float, interrupted: bool
) -> None:
    found = [(name, turn) for name, turn, _ in turns_to_interrupt(snapshot(task, capacity=capacity, hours=hours))]
    assert found == ([(task.id, task.agent.turn.number)] if interrupted else [])


def test_only_the_specified_turn_is_ended_for_the_day() -> None:
    play = Playbook(in_a_turn(1000)) >> pause(BUDGET, turn=1) << "end turn 1 of 1" << "wake in 60 s"
    assert play >> pause(BUDGET, turn=1)
    following = replace(at_work(), agent=replace(at_work().agent, turn=TurnProgress(number=2)))
    assert Playbook(following) >> pause(BUDGET, turn=1)


def test_a_task_at_its_own_cap_is_not_resumed_by_the_next_day() -> None:
    task = at_its_cap(Caps(turns=1)).task
    assert not list(tasks_to_resume(snapshot(task)))


def test_money_spent_on_another_day_does_not_count_today() -> None:
    task = replace(at("ANALYSIS", NextAction.GATE), spending=TaskSpending(by_day={"2026-11-20": Spending(usd=50.0)}))
    assert day_used_up(snapshot(task)) is None
    assert (
        day_used_up(
            snapshot(
                replace(
                    task, spending=replace(task.spending, by_day={f"{task.updated_at:%Y-%m-%d}": Spending(usd=50.0)})
                )
            )
        )
        is not None
    )


def test_caps_that_affect_nothing_change_nothing_else() -> None:
    task = at("TICKET_INTAKE", NextAction.GATE)
    after, commands = machine.decide(full(), task, caps(Caps(usd=1.0))(task, task.updated_at))
    assert (after.policy.caps, after.next_action, commands) == (Caps(usd=1.0), task.next_action, ())
