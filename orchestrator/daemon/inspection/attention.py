"""What needs a person: requests of agents, and tasks that only a person can move."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import UserRequest
from orchestrator.supervisor.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """A task that needs a person since a time: for a request, or, without one, because it is blocked or unreadable."""

    task: Task
    request: UserRequest | None
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionService:
    """The use case of everything that needs a person."""

    supervisor: Supervisor

    def list(self) -> list[Attention]:
        """Return what needs a person, oldest first."""
        tasks = [*self.supervisor.tasks.values(), *self.supervisor.unreadable]
        found = [one for task in tasks for one in _needs_of(task)]
        return sorted(found, key=lambda one: (one.since, one.task.id))


def _needs_of(task: Task) -> Iterator[Attention]:
    for request in task.pending_requests:
        yield Attention(task=task, request=request, since=request.asked_at)
    if task.status is TaskStatus.BLOCKED:
        failed_at = max((one.occurred_at for one in task.failures.entries), default=task.updated_at)
        yield Attention(task=task, request=None, since=failed_at)
