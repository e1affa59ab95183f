"""Which tasks were made for a schedule, by the marks that they carry on disk.

What lies on disk counts more than the record of a schedule: that may be older, because it comes from a backup or was
not written before a crash.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from orchestrator.core.schedule.recurring import RunResult
from orchestrator.core.task.task import Task
from orchestrator.daemon.schedules.records import ScheduledRun, TaskSchedule
from orchestrator.formats.codec import stamp, time_of
from orchestrator.storage.records import StoreError, TaskSummary
from orchestrator.supervisor.protocols import Store

_BEFORE = timedelta(days=1)
"""How long before its time a task may seem to be made, because clocks are set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTask:
    """A task that was made for a time of a schedule."""

    due: datetime
    task: Task


def made_on_disk(tasks: Store, key: str, since: datetime) -> str | None:
    """Return the task of any state that carries a mark and was made about that time or later. Blocks."""
    return next((task.id for task in _made_since(tasks, since) if task.schedule.made_by == key), None)


def newest_made(tasks: Store, schedule: TaskSchedule, since: datetime, now: datetime) -> MadeTask | None:
    """Return the task of any state with the newest time of a schedule that is not to come yet. Blocks."""
    found = []
    for task in _made_since(tasks, since):
        name, _, due = (task.schedule.made_by or "").rpartition("@")
        with suppress(ValueError):
            if name == schedule.id and time_of(due) <= now:
                found.append(MadeTask(due=time_of(due), task=task))
    return max(found, key=lambda one: one.due, default=None)


def with_made(schedule: TaskSchedule, made: MadeTask) -> TaskSchedule:
    """Return a schedule with the time on record for which a task was found."""
    reason = "its task was found on disk; the record of this schedule was older"
    at = made.task.timing.created_at
    run = ScheduledRun(due=made.due, at=at, result=RunResult.SUBMITTED, task=made.task.id, reason=reason)
    return replace(schedule.with_run(run), handled=made.due)


def _made_since(tasks: Store, since: datetime) -> Iterator[Task]:
    earliest = stamp(since - _BEFORE)
    for one in tasks.summaries():
        if isinstance(one, TaskSummary) and one.created_at >= earliest and one.parent is None:
            with suppress(StoreError):
                yield tasks.load(one.id).task
