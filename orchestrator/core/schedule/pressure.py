"""Which tasks pause when the machine is short of disk, memory or processors, and which may continue afterwards.

    disk      all tasks pause, because whatever an agent writes next may be lost
    memory    the newest task pauses, one more at each check; the last one continues, because only it can free memory
    load      no task starts or resumes; active tasks continue slowly

A shortage is over when the resource exceeds its floor by a tenth. So tasks are not frozen and thawed repeatedly.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task

MARGIN = 0.1
_GIB = 2**30


class ShortOf(StrEnum):
    """The resources that may be short, most important first."""

    DISK = "disk"
    MEMORY = "memory"
    LOAD = "load"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceReading:
    """What was measured: free disk and memory in bytes, the load of the last minute per processor."""

    free_disk: int
    available_memory: int
    load_per_core: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """The least free disk and memory, in bytes, and the highest load; zero means no limit."""

    free_disk: int
    available_memory: int = 0
    load_per_core: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A resource that is short, and a sentence with the numbers and the name of the setting."""

    kind: ShortOf
    reason: str


def judge(reading: ResourceReading, floors: Floors, before: Shortage | None = None) -> Shortage | None:
    """Return the most important shortage, if there is one; `before` is the result of the last check."""
    last = before.kind if before else None
    if reading.free_disk < _threshold(floors.free_disk, last is ShortOf.DISK):
        reason = _too_little("disk", reading.free_disk, "free_space_floor", floors.free_disk)
        return Shortage(kind=ShortOf.DISK, reason=reason)
    if reading.available_memory < _threshold(floors.available_memory, last is ShortOf.MEMORY):
        reason = _too_little("memory", reading.available_memory, "free_memory_floor", floors.available_memory)
        return Shortage(kind=ShortOf.MEMORY, reason=reason)
    ceiling = floors.load_per_core
    if ceiling and reading.load_per_core > ceiling * (1 - MARGIN if last is ShortOf.LOAD else 1):
        return Shortage(
            kind=ShortOf.LOAD,
            reason=f"the load is {reading.load_per_core:.2f} per processor, the setting load_ceiling allows "
            f"{ceiling:.2f}, and new work starts at {ceiling * (1 - MARGIN):.2f}",
        )
    return None


def tasks_to_freeze(shortage: Shortage | None, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return the ids of the tasks that have to pause now, the newest first."""
    running = sorted((task for task in tasks if task.holds_slot), key=_start_order, reverse=True)
    if shortage is None or shortage.kind is ShortOf.LOAD:
        return ()
    if shortage.kind is ShortOf.MEMORY:
        running = running[:1] if len(running) > 1 else []
    return tuple(task.id for task in running)


def tasks_to_release(shortage: Shortage | None, tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return the ids of the tasks that a shortage paused and that need not pause any more; they wait for a slot."""
    if shortage is not None and shortage.kind is not ShortOf.LOAD:
        return ()
    return tuple(task.id for task in tasks if task.is_paused and task.agent.blocked_by is PauseReason.PRESSURE)


def _threshold(floor: int, was_short: bool) -> float:
    return floor * (1 + MARGIN) if was_short else floor


def _too_little(what: str, left: int, setting: str, floor: int) -> str:
    return (
        f"only {left / _GIB:.2f} GiB of {what} are free, the setting {setting} needs {floor / _GIB:.2f} GiB, "
        f"and work continues at {floor * (1 + MARGIN) / _GIB:.2f} GiB"
    )


def _start_order(task: Task) -> tuple[float, str]:
    return ((task.timing.started_at or task.timing.created_at).timestamp(), task.id)
