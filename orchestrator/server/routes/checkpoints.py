"""A task's checkpoints: look at them, keep one permanently, restore what one saved."""

from typing import Annotated

from fastapi import APIRouter, Path

from orchestrator.daemon.services import errors
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import CHANGED, refuses
from orchestrator.server.routes.dependencies import TaskName, TheService
from orchestrator.server.schemas.base import compose_view, to_view
from orchestrator.server.schemas.checkpoints import (
    CheckpointList,
    CheckpointView,
    PinBody,
    RecoveredView,
    RestoreBody,
    RestoredView,
)

router = APIRouter(prefix="/api/tasks/{name}/checkpoints", tags=["checkpoints"], route_class=KeyedRoute)

Number = Annotated[int, Path(ge=0, le=10**9)]


@router.get("")
async def checkpoints(name: TaskName, service: TheService) -> CheckpointList:
    """List every checkpoint that is kept, newest first."""
    kept = await service.checkpoints.list(name)
    return CheckpointList(checkpoints=tuple(to_view(CheckpointView, one, service.redact) for one in kept))


@router.get("/{number:int}", responses=refuses(errors.NoSuchCheckpoint))
async def checkpoint(name: TaskName, service: TheService, number: Number) -> CheckpointView:
    """Show one checkpoint."""
    return to_view(CheckpointView, await service.checkpoints.find(name, number), service.redact)


@router.post("/{number:int}/restore", responses=refuses(errors.NoSuchCheckpoint, *CHANGED))
async def restore(name: TaskName, service: TheService, number: Number, body: RestoreBody | None = None) -> RestoredView:
    """Restore what a checkpoint saved, to a branch or in place; nothing is lost by it."""
    wanted = body or RestoreBody()
    if wanted.in_place:
        done = await service.checkpoints.restore_in_place(name, number)
    else:
        done = await service.checkpoints.restore(name, number, wanted.branch)
    return compose_view(RestoredView, service.redact, done, done.task.source, task=done.task.id)


@router.post("/{number:int}/pin", responses=refuses(errors.NoSuchCheckpoint, *CHANGED))
async def pin(name: TaskName, service: TheService, number: Number, body: PinBody | None = None) -> CheckpointView:
    """Keep a checkpoint permanently, or, with `pinned: false`, no longer than others."""
    pinned = await service.checkpoints.pin(name, number, pinned=(body or PinBody()).pinned)
    return to_view(CheckpointView, pinned, service.redact)


@router.post("/recover", responses=refuses(errors.NothingLost, errors.NoStateLeft, *CHANGED))
async def recover(name: TaskName, service: TheService) -> RecoveredView:
    """Restore a task whose files cannot be read from the newest state that is left, and go on with it."""
    done = await service.recovery.recover(name)
    return compose_view(RecoveredView, service.redact, done, done.task, task=done.task.id)
