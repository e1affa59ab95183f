"""What people ask of a task whose change is out, or that has ended: a round of review, archiving, deleting."""

import asyncio

from fastapi import APIRouter, status

from orchestrator import clock
from orchestrator.core.decide.transitions import require
from orchestrator.core.events.events import ArchiveRequested, RoundRequested
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.routes.tasks import By, TheBackend, TheRegister, TheTask
from orchestrator.server.schemas.task_views import task_view
from orchestrator.server.schemas.views import TaskView

router = APIRouter(prefix="/api/tasks", tags=["tasks"], route_class=KeyedRoute)


@router.post("/{name}/review")
async def review(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Take up what reviewers have said of the task's pull request, now."""
    require("review", task)
    event = RoundRequested(at=clock.now(), by=by)
    return task_view(await backend.supervisor.request(task.id, event), backend.redact)


@router.post("/{name}/archive")
async def archive(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Keep an ended task out of the way: lists leave it out, its worktree goes, everything else stays."""
    require("archive", task)
    loaded = await asyncio.to_thread(backend.store.load, task.id, keep_open=True)
    event = ArchiveRequested(at=clock.now(), by=by)
    archived = await backend.supervisor.request_of_ended(loaded.task, event)
    await asyncio.to_thread(backend.clear, archived)
    return task_view(archived, backend.redact)


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT)
async def delete(task: TheTask, backend: TheBackend, register: TheRegister) -> None:
    """Remove a draft or an ended task for good, with all its files; its commits stay where they were delivered."""
    require("delete", backend.supervisor.tasks.get(task.id, task))
    backend.supervisor.forget(task.id)
    await asyncio.to_thread(backend.clear, task, whole=True)
    register.forget(task.id)
