"""What live tasks wait for that comes by itself, counted: a slot, a time, hours, other tasks, the account, a budget."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from orchestrator.core.schedule.admission import (
    WITHOUT_AGENT,
    SchedulerSnapshot,
    active_limit_before,
    blockers,
    day_used_up,
    next_day,
    shared_limit,
)
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.usage_limits import ActiveLimit


class WaitReason(StrEnum):
    """What a task waits for."""

    SLOT = "slot"
    START = "start"
    WINDOW = "window"
    TASK = "task"
    LIMIT = "limit"
    BUDGET = "budget"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How many tasks wait for the same; from `until` on the first of them may go on, None if no time is known."""

    reason: WaitReason
    tasks: int
    until: datetime | None


_OF_PAUSE: Final[Mapping[PauseReason | None, WaitReason]] = {
    PauseReason.WINDOW: WaitReason.WINDOW,
    PauseReason.RATE_LIMIT: WaitReason.LIMIT,
    PauseReason.BUDGET: WaitReason.BUDGET,
    PauseReason.SERVICE: WaitReason.SERVICE,
}


def count_waits(snapshot: SchedulerSnapshot) -> tuple[Wait, ...]:
    """Return what tasks wait for, in the order of the reasons; tasks that wait for a person are left out."""
    found: dict[WaitReason, list[datetime | None]] = {}
    for reason, until in _waits(snapshot):
        found.setdefault(reason, []).append(until)
    return tuple(
        Wait(reason=reason, tasks=len(found[reason]), until=min(filter(None, found[reason]), default=None))
        for reason in WaitReason
        if reason in found
    )


def _waits(snapshot: SchedulerSnapshot) -> Iterator[tuple[WaitReason, datetime | None]]:
    """Yield for each task that waits what it waits for, and until when."""
    limits: dict[str, ActiveLimit | None] = {}
    day = next_day(snapshot.now) if day_used_up(snapshot) else None
    for task in snapshot.tasks:
        if task.wants_slot:
            model = snapshot.model_of(task)
            if model not in limits:
                limits[model] = active_limit_before(task, snapshot)
            yield _before_start(task, snapshot) or _before_turn(task, snapshot, limits[model], day)
        elif task.is_paused and task.agent.blocked_by in _OF_PAUSE and not task.waits_for_word:
            closed = snapshot.closed(task) if task.agent.blocked_by is PauseReason.WINDOW else None
            yield _OF_PAUSE[task.agent.blocked_by], closed.until if closed else task.retry_at


def _before_start(task: Task, snapshot: SchedulerSnapshot) -> tuple[WaitReason, datetime | None] | None:
    """Return what keeps a new task from starting: its start time, or tasks that come before it."""
    start_at = task.schedule.start_at
    if task.status is not TaskStatus.PENDING:
        return None
    if start_at is not None and snapshot.now < start_at:
        return WaitReason.START, start_at
    return (WaitReason.TASK, None) if task.schedule.after and blockers(task, snapshot) else None


def _before_turn(
    task: Task, snapshot: SchedulerSnapshot, limit: ActiveLimit | None, day: datetime | None
) -> tuple[WaitReason, datetime | None]:
    """Return what keeps a task from its next turn: its hours, the account, a budget, or only that no slot is free."""
    if task.next_action in WITHOUT_AGENT:
        return WaitReason.SLOT, None
    if closed := snapshot.closed(task):
        return WaitReason.WINDOW, closed.until
    if snapshot.obstacle:
        return WaitReason.SERVICE, None
    if limit is not None:
        return WaitReason.LIMIT, limit.until
    if shared_limit(task, snapshot) is not None:
        return WaitReason.BUDGET, None
    return (WaitReason.BUDGET, day) if day else (WaitReason.SLOT, None)
