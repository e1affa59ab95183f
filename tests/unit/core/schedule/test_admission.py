"""Which tasks may start or continue, and in which order."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot, blockers, tasks_to_admit
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import Priority, Schedule, Task, TaskStatus, Timing
from tests.fakes.world import START
from tests.unit.playbook import Playbook, a_task, at_work


def queue_of(tasks: Iterable[Task]) -> list[Task]:
    return list(LiveTasks(tasks).queue)


def pending(name: str, priority: Priority = Priority.NORMAL, minutes: int = 0) -> Task:
    created = START + timedelta(minutes=minutes)
    task = replace(a_task(), id=name, schedule=Schedule(priority=priority), timing=Timing(created_at=created))
    return Playbook.submitted(task).task


def paused(name: str, blocked_by: PauseReason | None) -> Task:
    task = replace(at_work(), id=name)
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=blocked_by))


def snapshot(
    *tasks: Task, capacity: Capacity | None = None, ended: dict[str, TaskStatus] | None = None
) -> SchedulerSnapshot:
    return SchedulerSnapshot(tasks=LiveTasks(tasks), ended=ended or {}, capacity=capacity or Capacity(), now=START)


def test_tasks_queue_by_priority_then_age_then_name() -> None:
    tasks = [
        pending("young", minutes=5),
        pending("low", Priority.LOW),
        pending("b"),
        pending("a"),
        pending("critical", Priority.CRITICAL, minutes=9),
        pending("high", Priority.HIGH),
    ]
    assert [task.id for task in queue_of(tasks)] == ["critical", "high", "a", "b", "young", "low"]


def test_a_started_task_goes_before_all_that_have_not_started() -> None:
    assert [task.id for task in queue_of([pending("new", Priority.CRITICAL), paused("begun", None)])] == [
        "begun",
        "new",
    ]


def test_tasks_are_grouped_by_what_they_hold_and_want() -> None:
    held, begun = paused("held", PauseReason.USER), paused("begun", None)
    tasks = LiveTasks([pending("new"), at_work(), held, begun])
    assert tasks.running == (at_work(),)
    assert tasks.paused == (held, begun)
    assert [task.id for task in tasks.queue] == ["begun", "new"]
    assert tasks.ahead == {"begun": 0, "new": 1}


def test_only_tasks_that_need_a_place_queue() -> None:
    assert (
        queue_of([at_work(), paused("held", PauseReason.USER), replace(pending("x"), status=TaskStatus.CANCELLED)])
        == []
    )


@pytest.mark.parametrize(("places", "ids"), [(0, []), (1, []), (2, ["a"]), (3, ["a", "b"]), (9, ["a", "b"])])
def test_no_more_tasks_continue_than_there_are_places(places: int, ids: list[str]) -> None:
    assert tasks_to_admit(snapshot(at_work(), pending("b"), pending("a"), capacity=Capacity(places=places))) == ids


def test_a_paused_task_occupies_no_place() -> None:
    assert tasks_to_admit(snapshot(paused("held", PauseReason.USER), pending("a"))) == ["a"]


@pytest.mark.parametrize("capacity", [Capacity(places=9, pressure="1 GiB is free"), Capacity(places=9, draining=True)])
def test_no_task_continues_while_resources_are_short(capacity: Capacity) -> None:
    assert tasks_to_admit(snapshot(pending("a"), capacity=capacity)) == []


def test_a_task_waits_for_its_start_time_and_lets_others_pass() -> None:
    at = Schedule(priority=Priority.HIGH, start_at=START + timedelta(minutes=90))
    early = replace(pending("early"), schedule=at)
    assert tasks_to_admit(snapshot(early, pending("b"))) == ["b"]
    assert blockers(early, snapshot()) == ("it starts at 2026-11-21 23:30 UTC",)
    assert tasks_to_admit(snapshot(replace(early, schedule=replace(at, start_at=START)))) == ["early"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "it waits for first, which is not finished"),
        (TaskStatus.FAILED, "it waits for first, which is failed"),
        (TaskStatus.CANCELLED, "it waits for first, which is cancelled"),
    ],
)
def test_a_task_waits_for_the_tasks_it_comes_after(status: TaskStatus | None, reason: str) -> None:
    task = replace(pending("second"), schedule=Schedule(after=("first",)))
    assert blockers(task, snapshot(ended={"first": status} if status else {})) == (reason,)
    assert tasks_to_admit(snapshot(task)) == []
    assert tasks_to_admit(snapshot(task, ended={"first": TaskStatus.COMPLETED})) == ["second"]


def test_all_blockers_are_named() -> None:
    schedule = Schedule(after=("first", "second"), start_at=START + timedelta(hours=1))
    task = replace(pending("third"), schedule=schedule)
    assert len(blockers(task, snapshot())) == 3


def test_a_started_task_has_no_blockers() -> None:
    assert blockers(replace(paused("begun", None), schedule=Schedule(after=("first",))), snapshot()) == ()
