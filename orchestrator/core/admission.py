"""Who may start or go on now: by priority, then by age, within the number of places.

All that one process assumes alone about places is here and in the store, so that many machines could share them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.model import Priority, Task, TaskStatus

_RANK = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What admission looks at beside the tasks: places, and why there is no room at all, if so."""

    places: int = 1
    pressure: str | None = None
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All there is to see at one moment: the tasks at work, the status of those that have ended, the room, the time."""

    tasks: tuple[Task, ...]
    ended: Mapping[str, TaskStatus]
    room: Room
    now: datetime


def admitted(scene: Scene) -> list[str]:
    """The ids of the tasks that may start or go on now, first ones first."""
    free = scene.room.places - sum(task.holds_slot for task in scene.tasks)
    if scene.room.pressure or scene.room.draining or account_limit(scene) or free <= 0:
        return []
    return [task.id for task in queue(scene.tasks) if _may_begin(task, scene)][:free]


def account_limit(scene: Scene) -> Task | None:
    """The task that waits longest for the account's usage limit to be over; nobody else starts a turn until then."""
    waiting = [task for task in scene.tasks if task.limited and task.retry_at and task.retry_at > scene.now]
    return max(waiting, key=lambda task: task.retry_at or scene.now, default=None)


def queue(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that want a place, in the order in which they get one: begun ones, then by priority and age."""
    return sorted(
        (task for task in tasks if task.wants_slot),
        key=lambda task: (task.status is TaskStatus.PENDING, _RANK[task.priority], task.created_at, task.id),
    )


def hindrances(task: Task, scene: Scene) -> tuple[str, ...]:
    """What keeps a task from starting even if there were a place: its time, and the tasks it comes after."""
    if _may_begin(task, scene):
        return ()
    status = {**{other.id: other.status for other in scene.tasks}, **scene.ended}
    waiting = tuple(
        f"it comes after {other}, which is {status.get(other, 'not finished')}" for other in _awaited(task, scene)
    )
    return (f"it starts at {task.start_at:%Y-%m-%d %H:%M} UTC", *waiting) if _is_early(task, scene) else waiting


def _may_begin(task: Task, scene: Scene) -> bool:
    return task.status is not TaskStatus.PENDING or not (_is_early(task, scene) or _awaited(task, scene))


def _is_early(task: Task, scene: Scene) -> bool:
    return task.start_at is not None and scene.now < task.start_at


def _awaited(task: Task, scene: Scene) -> list[str]:
    return [other for other in task.after if scene.ended.get(other) is not TaskStatus.COMPLETED]
