"""A task's checkpoints: what each saved, kept for good or not, and restored."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Path, Request, Response
from pydantic import Field

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.service import Service
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import compose_view, to_view
from orchestrator.server.schemas.checkpoints import CheckpointView, RestoredView
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

MOST = 100
"""How many checkpoints are shown, newest first."""

Number = Annotated[int, Path(ge=0, le=10**9)]


class PinForm(Sent):
    """Whether to keep a checkpoint for good."""

    pinned: bool


class RestoreForm(Sent):
    """Where to restore saved work: on a branch, which gets a name if none is given, or in the worktree."""

    to: Literal["branch", "worktree"] = "branch"
    branch: str = Field(default="", max_length=200)


@router.get("/tasks/{name}/checkpoints")
async def checkpoints(request: Request, service: TheService, name: str) -> Response:
    """Show every checkpoint that is kept, newest first."""
    parts = await _checkpoints(service, name)
    if "hx-request" in request.headers:
        return render(request, "task/_checkpoints.html", **parts)
    return render(request, "task/checkpoints.html", **(await header_of(service, name, "checkpoints") | parts))


@router.post("/tasks/{name}/checkpoints/{number}/pin")
async def pin(
    request: Request, service: TheService, name: str, number: Number, form: Annotated[PinForm, Form()]
) -> Response:
    """Keep a checkpoint for good, or no longer than others."""
    await service.checkpoints.pin(name, number, pinned=form.pinned)
    return done(request, form.next)


@router.post("/tasks/{name}/checkpoints/{number}/restore")
async def restore(
    request: Request, service: TheService, name: str, number: Number, form: Annotated[RestoreForm, Form()]
) -> Response:
    """Restore what a checkpoint saved, and say where it is now."""
    if form.to == "worktree":
        restored = await service.checkpoints.restore_in_place(name, number)
    else:
        restored = await service.checkpoints.restore(name, number, form.branch or None)
    view = compose_view(RestoredView, service.redact, restored, restored.task.source, task=restored.task.id)
    if "hx-request" in request.headers:
        return render(request, "task/_restored.html", restored=view)
    parts = await _checkpoints(service, name) | {"restored": view}
    return render(request, "task/checkpoints.html", **(await header_of(service, name, "checkpoints") | parts))


async def _checkpoints(service: Service, name: str) -> dict[str, Any]:
    task = await service.tasks.find(name)
    kept = await service.checkpoints.list(task.id)
    at_rest = task.run is None and (task.is_paused or task.status is TaskStatus.BLOCKED)
    return {
        "home": f"/tasks/{task.id}",
        "checkpoints": [to_view(CheckpointView, one, service.redact) for one in kept[:MOST]],
        "more": max(0, len(kept) - MOST),
        "in_place": at_rest and not task.status.is_final,
        "restored": None,
    }
