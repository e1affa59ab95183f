"""What will still keep a task from running when the time comes that it waits for now, as far as that is known."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from orchestrator.core.schedule.admission import SchedulerSnapshot, active_limit_before, blockers
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus

_MOST = 6
"""Obstacles that are looked for, one after another: run windows and usage limits take turns."""


def awaited_time(task: Task, snapshot: SchedulerSnapshot) -> datetime | None:
    """Return the time that a task waits for now: its start, its run window, the next try or the end of a limit.

    None if it waits for something else.
    """
    if task.status is TaskStatus.PENDING and blockers(task, snapshot):
        start_at = task.schedule.start_at
        return start_at if start_at and start_at > snapshot.now else None
    by = task.agent.blocked_by if task.is_paused else None
    if by in (PauseReason.RATE_LIMIT, PauseReason.SERVICE) and task.retry_at:
        return task.retry_at
    if by not in (PauseReason.WINDOW, PauseReason.RATE_LIMIT) and not task.wants_slot:
        return None
    if closed := snapshot.closed(task):
        return closed.until
    limit = active_limit_before(task, snapshot)
    return limit.until if limit else None


def obstacles_at(task: Task, snapshot: SchedulerSnapshot, at: datetime) -> Iterator[str]:
    """Yield what is known to keep a task waiting at a time, and then at the time when that is over, and so on."""
    for _ in range(_MOST):
        then = replace(snapshot, now=at)
        closed, limit = then.closed(task), active_limit_before(task, then)
        if closed and closed.until:
            yield closed.opens_in(snapshot.now)
            at = closed.until
        elif limit and limit.until and limit.until > at:
            yield f"the account's usage limit ({limit.window}) lasts until {limit.until:%Y-%m-%d %H:%M:%S} UTC"
            at = limit.until
        else:
            return
