"""A task's checkpoints: look at them, keep one for good, bring back what one saved."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path

from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.routes.tasks import TheBackend, TheTask
from orchestrator.server.schemas.checkpoints import CheckpointList, CheckpointView, PinBody, RestoreBody, RestoredView
from orchestrator.server.schemas.views import to_view

router = APIRouter(prefix="/api/tasks/{name}/checkpoints", tags=["checkpoints"], route_class=KeyedRoute)

Number = Annotated[int, Path(ge=0, le=10**9)]


@router.get("")
async def checkpoints(task: TheTask, backend: TheBackend) -> CheckpointList:
    """Every checkpoint that is kept, newest first."""
    kept = await asyncio.to_thread(backend.checkpoints.kept, task)
    return CheckpointList(checkpoints=tuple(to_view(CheckpointView, one, backend.redact) for one in kept))


@router.get("/{number}")
async def checkpoint(task: TheTask, backend: TheBackend, number: Number) -> CheckpointView:
    """One of them."""
    found = await asyncio.to_thread(backend.checkpoints.found, task, number)
    return to_view(CheckpointView, found, backend.redact)


@router.post("/{number}/restore")
async def restore(task: TheTask, backend: TheBackend, number: Number, body: RestoreBody | None = None) -> RestoredView:
    """Bring back what one saved; nothing is lost by it."""
    wanted = body or RestoreBody()
    where = {"task": task.id, "number": number, "repo": task.source.repo, "worktree": task.source.worktree}
    if wanted.in_place:
        before = await backend.checkpoints.restore_in_place(task, number)
        return to_view(RestoredView, {**where, "kept_as": before.number}, backend.redact)
    made = await backend.checkpoints.restore(task, number, wanted.branch)
    return to_view(RestoredView, {**where, "branch": made.branch, "commit": made.commit}, backend.redact)


@router.post("/{number}/pin")
async def pin(task: TheTask, backend: TheBackend, number: Number, body: PinBody | None = None) -> CheckpointView:
    """Keep one for good, or, with `pinned: false`, no longer than others."""
    pinned = backend.checkpoints.pin(task, number, pinned=(body or PinBody()).pinned)
    return to_view(CheckpointView, pinned, backend.redact)
