"""What tasks wait for that comes by itself: each task counts once, under what keeps it now."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.core.schedule.waits import Wait, WaitReason, count_waits
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Caps, Spending
from orchestrator.core.task.task import NextAction, Task
from orchestrator.core.task.usage_limits import Window
from tests.fakes.world import START
from tests.unit.core.schedule import test_shared_budget as families
from tests.unit.core.schedule.test_window_admission import CLOSED, OPENS, held, in_turn, pending

LATER = START + timedelta(hours=1)
CLOSED_NOW = Capacity(windows=(CLOSED,))


def snapshot(*tasks: Task, **more: Any) -> SchedulerSnapshot:
    return SchedulerSnapshot(tasks=LiveTasks(tasks), **{"ended": {}, "capacity": Capacity(), "now": START, **more})


def submitted(**schedule: Any) -> Task:
    task = pending()
    return replace(task, schedule=replace(task.schedule, **schedule))


def paused(by: PauseReason | None, **more: Any) -> Task:
    task = held()
    return replace(task, agent=replace(task.agent, blocked_by=by), **more)


def only(*tasks: Task, **more: Any) -> tuple[WaitReason, int, object]:
    (found,) = count_waits(snapshot(*tasks, **more))
    return found.reason, found.tasks, found.until


def test_tasks_are_counted_by_what_they_wait_for_with_the_earliest_time() -> None:
    tasks = (
        pending(),
        pending(),
        paused(None),
        submitted(start_at=LATER + timedelta(hours=5)),
        submitted(start_at=LATER),
        submitted(after=("other",)),
        in_turn(),
        paused(PauseReason.QUESTION),
        paused(PauseReason.USER),
    )
    assert count_waits(snapshot(*tasks)) == (
        Wait(reason=WaitReason.SLOT, tasks=3, until=None),
        Wait(reason=WaitReason.START, tasks=2, until=LATER),
        Wait(reason=WaitReason.TASK, tasks=1, until=None),
    )
    assert count_waits(snapshot()) == ()


def test_a_start_time_or_another_task_counts_only_until_it_is_over() -> None:
    assert only(submitted(start_at=START)) == (WaitReason.SLOT, 1, None)
    assert only(submitted(after=("other",), after_any_end=True), ended={"other": None}) == (WaitReason.SLOT, 1, None)


def test_closed_hours_count_new_tasks_and_frozen_ones_but_none_that_needs_no_agent() -> None:
    assert only(pending(), held(), capacity=CLOSED_NOW) == (WaitReason.WINDOW, 2, OPENS)
    assert only(held()) == (WaitReason.WINDOW, 1, None), "its window has just opened"
    delivering = paused(None, next_action=NextAction.DELIVERY)
    assert only(delivering, capacity=CLOSED_NOW) == (WaitReason.SLOT, 1, None)


def test_the_account_and_budgets_count_apart_from_slots() -> None:
    used_up = {"five_hour": Window(status="rejected", resets_at=LATER, seen_at=START)}
    assert only(pending(), windows=used_up) == (WaitReason.LIMIT, 1, LATER + timedelta(seconds=30))
    assert only(pending(), trouble=Trouble(kind=TroubleKind.ACCOUNT, reason="refused")) == (WaitReason.SERVICE, 1, None)
    day = {"capacity": Capacity(day=Caps(usd=1.0)), "ended_today": Spending(usd=2.0)}
    midnight = (START + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert only(pending(), **day) == (WaitReason.BUDGET, 1, midnight)
    family = (families.parent(Caps(usd=1.0), usd=2.0), families.waiting("P.A"))
    assert only(*family) == (WaitReason.BUDGET, 1, None)


def test_a_limit_that_only_a_person_ends_is_no_wait() -> None:
    until = paused(PauseReason.RATE_LIMIT, retry_at=LATER)
    assert only(until) == (WaitReason.LIMIT, 1, LATER)
    setbacks = replace(until.agent.setbacks, limit_waits=1)
    asked = replace(until, retry_at=None, agent=replace(until.agent, setbacks=setbacks))
    assert count_waits(snapshot(asked)) == ()
