"""When the machine is too short of something for agents to go on, who has to stand still for it, and who goes on after.

    disk      everything stands still: whatever an agent writes next may be lost
    memory    the newest stands still, one more at each look, but never the last: nobody else would give memory back
    load      nobody new starts or goes on; who is at work is only slow

A shortage is over when there is a tenth more than is asked for, so that nobody is frozen and thawed in turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task

MARGIN = 0.1
_GIB = 2**30


class ShortOf(StrEnum):
    """What there may be too little of; in the order in which it matters."""

    DISK = "disk"
    MEMORY = "memory"
    LOAD = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReading:
    """How the machine is now: free disk and memory in bytes, load of the last minute for each processor."""

    free_disk: int
    available_memory: int
    load_per_core: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """How little disk and memory may be left, in bytes, and how high the load may be; zero asks for nothing."""

    free_disk: int
    available_memory: int = 0
    load_per_core: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """What there is too little of, and a sentence with the numbers and the setting that asks for more."""

    kind: ShortOf
    reason: str


def judge(reading: ResourceReading, floors: Floors, before: Shortage | None = None) -> Shortage | None:
    """The gravest shortage that there is; `before` is the answer of the last look."""
    held = before.kind if before else None
    if reading.free_disk < _wanted(floors.free_disk, held is ShortOf.DISK):
        said = _few("disk", reading.free_disk, "free_space_floor", floors.free_disk)
        return Shortage(kind=ShortOf.DISK, reason=said)
    if reading.available_memory < _wanted(floors.available_memory, held is ShortOf.MEMORY):
        said = _few("memory", reading.available_memory, "free_memory_floor", floors.available_memory)
        return Shortage(kind=ShortOf.MEMORY, reason=said)
    ceiling = floors.load_per_core
    if ceiling and reading.load_per_core > ceiling * (1 - MARGIN if held is ShortOf.LOAD else 1):
        return Shortage(
            kind=ShortOf.LOAD,
            reason=f"the load is {reading.load_per_core:.2f} for each processor, the setting load_ceiling allows "
            f"{ceiling:.2f}, and new work begins at {ceiling * (1 - MARGIN):.2f}",
        )
    return None


def tasks_to_freeze(shortage: Shortage | None, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The ids of the tasks that have to stand still after this look, the newest first."""
    running = sorted((task for task in tasks if task.holds_slot), key=_begun, reverse=True)
    if shortage is None or shortage.kind is ShortOf.LOAD:
        return ()
    if shortage.kind is ShortOf.MEMORY:
        running = running[:1] if len(running) > 1 else []
    return tuple(task.id for task in running)


def tasks_to_release(shortage: Shortage | None, tasks: Iterable[Task]) -> tuple[str, ...]:
    """The ids of the tasks that a shortage held and this one does not; they go on when they are admitted."""
    if shortage is not None and shortage.kind is not ShortOf.LOAD:
        return ()
    return tuple(task.id for task in tasks if task.is_paused and task.agent.blocked_by is PauseReason.PRESSURE)


def _wanted(floor: int, held: bool) -> float:
    return floor * (1 + MARGIN) if held else floor


def _few(what: str, left: int, setting: str, floor: int) -> str:
    return (
        f"only {left / _GIB:.2f} GiB of {what} are free, the setting {setting} wants {floor / _GIB:.2f} GiB, "
        f"and work goes on at {floor * (1 + MARGIN) / _GIB:.2f} GiB"
    )


def _begun(task: Task) -> tuple[float, str]:
    return ((task.timing.started_at or task.timing.created_at).timestamp(), task.id)
