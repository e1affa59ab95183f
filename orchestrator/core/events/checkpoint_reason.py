"""Decide after which events a checkpoint is taken."""

from orchestrator.core.events.events import Event
from orchestrator.core.events.run_events import RunFrozen
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import Task, TaskStatus


def reason_for(before: Task, after: Task, event: Event) -> Reason | None:
    """Return why a checkpoint is taken after a decision; None if none is needed, or the task has ended."""
    if after.status.is_final and after.run is None:
        return None
    if isinstance(event, RunFrozen) and after is not before:
        return _frozen_by(after.agent.blocked_by if after.is_paused else None)
    if after.waits_for_service and not before.waits_for_service:
        return Reason.LIMIT
    was_blocked = after.status is TaskStatus.BLOCKED and before.status is not TaskStatus.BLOCKED
    if was_blocked or after.failures.total > before.failures.total:
        return Reason.ERROR
    if after.stages is before.stages:
        return None
    return Reason.PHASE if _completed(after) - _completed(before) else None


def _frozen_by(cause: PauseReason | None) -> Reason:
    match cause:
        case PauseReason.RATE_LIMIT:
            return Reason.LIMIT
        case PauseReason.USER:
            return Reason.USER
        case _:
            return Reason.FREEZE


def _completed(task: Task) -> set[tuple[str, int]]:
    """Return the completed stages, each with the visit that completed it."""
    return {(name, one.visits) for name, one in task.stages.items() if one.status is StageStatus.COMPLETED}
