"""Resource shortages: which tasks are paused for them, and which are resumed afterwards."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.schedule.pressure import (
    Floors,
    ResourceReading,
    Shortage,
    ShortOf,
    judge,
    tasks_to_freeze,
    tasks_to_release,
)
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import Task, Timing
from tests.fakes.world import START
from tests.unit.playbook import a_task, at_work

GIB = 2**30
FLOORS = Floors(free_disk=2 * GIB, available_memory=GIB, load_per_core=4.0)


def short(kind: ShortOf) -> Shortage:
    return Shortage(kind=kind, reason="too little")


def reading(disk: float = 50, memory: float = 8, load: float = 0.5) -> ResourceReading:
    """Return a reading with this many GiB of disk and memory; the defaults are sufficient."""
    return ResourceReading(free_disk=int(disk * GIB), available_memory=int(memory * GIB), load_per_core=load)


def judged(found: ResourceReading, before: ShortOf | None = None) -> ShortOf | None:
    shortage = judge(found, FLOORS, short(before) if before else None)
    return shortage.kind if shortage else None


def running(name: str, minutes: int) -> Task:
    timing = Timing(created_at=START, started_at=START + timedelta(minutes=minutes))
    return replace(at_work(), id=name, timing=timing)


def paused(name: str, blocked_by: PauseReason) -> Task:
    task = running(name, 0)
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=blocked_by))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (reading(), None),
        (reading(disk=2), None),
        (reading(disk=1.99), ShortOf.DISK),
        (reading(memory=0.99), ShortOf.MEMORY),
        (reading(load=4.0), None),
        (reading(load=4.1), ShortOf.LOAD),
        (reading(memory=0, load=99), ShortOf.MEMORY),
        (reading(disk=0, memory=0, load=99), ShortOf.DISK),
    ],
)
def test_the_most_severe_shortage_is_named_first(found: ResourceReading, kind: ShortOf | None) -> None:
    assert judged(found) is kind


@pytest.mark.parametrize(
    ("kind", "still", "over"),
    [
        (ShortOf.DISK, reading(disk=2.19), reading(disk=2.21)),
        (ShortOf.MEMORY, reading(memory=1.09), reading(memory=1.11)),
        (ShortOf.LOAD, reading(load=3.7), reading(load=3.5)),
    ],
)
def test_a_shortage_ends_when_ten_percent_more_is_available(
    kind: ShortOf, still: ResourceReading, over: ResourceReading
) -> None:
    assert judged(still, kind) is kind
    assert judged(over, kind) is None
    assert judged(still) is None


def test_a_shortage_does_not_prolong_another_one() -> None:
    assert judged(reading(memory=1.05), ShortOf.DISK) is None


def test_a_resource_without_a_floor_is_never_short() -> None:
    assert judge(reading(disk=0, memory=0, load=99), Floors(free_disk=0)) is None


DISK = "only 1.99 GiB of disk are free, the setting free_space_floor needs 2.00 GiB, and work continues at 2.20 GiB"
MEMORY = (
    "only 0.50 GiB of memory are free, the setting free_memory_floor needs 1.00 GiB, and work continues at 1.10 GiB"
)
LOAD = "the load is 7.00 per processor, the setting load_ceiling allows 4.00, and new work starts at 3.60"


@pytest.mark.parametrize(
    ("found", "reason"), [(reading(disk=1.99), DISK), (reading(memory=0.5), MEMORY), (reading(load=7), LOAD)]
)
def test_a_shortage_states_what_is_available_what_is_required_and_when_it_ends(
    found: ResourceReading, reason: str
) -> None:
    shortage = judge(found, FLOORS)
    assert shortage is not None
    assert shortage.reason == reason


TASKS = (running("old", 1), running("new", 9), running("middle", 5), paused("held", PauseReason.USER), a_task())


@pytest.mark.parametrize(
    ("shortage", "ids"),
    [
        (None, ()),
        (short(ShortOf.DISK), ("new", "middle", "old")),
        (short(ShortOf.MEMORY), ("new",)),
        (short(ShortOf.LOAD), ()),
    ],
)
def test_all_tasks_pause_for_disk_the_newest_for_memory_and_none_for_load(
    shortage: Shortage | None, ids: tuple[str, ...]
) -> None:
    assert tasks_to_freeze(shortage, TASKS) == ids


def test_the_last_active_task_continues_however_little_memory_there_is() -> None:
    assert tasks_to_freeze(short(ShortOf.MEMORY), [running("only", 1), paused("held", PauseReason.PRESSURE)]) == ()


@pytest.mark.parametrize(
    ("shortage", "ids"),
    [
        (None, ("one", "two")),
        (short(ShortOf.LOAD), ("one", "two")),
        (short(ShortOf.DISK), ()),
        (short(ShortOf.MEMORY), ()),
    ],
)
def test_tasks_paused_for_a_shortage_are_released_together(shortage: Shortage | None, ids: tuple[str, ...]) -> None:
    held = (paused("one", PauseReason.PRESSURE), paused("two", PauseReason.PRESSURE), paused("user", PauseReason.USER))
    assert tasks_to_release(shortage, (*held, running("old", 1))) == ids
