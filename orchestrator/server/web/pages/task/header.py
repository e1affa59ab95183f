"""The head of every page of a task: what it is, where it is and why, and what may be done with it."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from orchestrator.core.decide.transitions import allowed
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.service import Service
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import View, Words, compose_view
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)


class HeaderView(View):
    """What the head of a task's pages shows; `facts` keep the task where it is, `next` would move it."""

    id: str
    title: Words
    status: TaskStatus
    paused: bool
    blocked_by: PauseReason | None
    block_reason: Words | None
    stage: str
    role: str | None
    attempt: int
    progress: int
    pipeline: str
    repo: str
    branch: str
    updated_at: datetime
    parent: str | None
    retry_of: str | None
    waiting: int
    allowed: tuple[str, ...]
    facts: tuple[Words, ...]
    next: Words


async def header_of(service: Service, name: str, tab: str) -> dict[str, Any]:
    """Return what templates/task/layout.html shows of a task, on the page `tab`. Raises NoSuchTask, AmbiguousName."""
    task, why = await service.tasks.why(name)
    view = compose_view(
        HeaderView,
        service.redact,
        *(task, task.source, task.agent, why),
        status=task.status,
        blocked_by=task.agent.blocked_by,
        paused=task.is_paused,
        waiting=len(task.pending_requests),
        allowed=allowed(task),
    )
    return {"header": view, "tab": tab, "home": f"/tasks/{view.id}"}


@router.get("/tasks/{name}/header")
async def header(request: Request, service: TheService, name: str) -> Response:
    """Show the head alone."""
    return render(request, "task/_header.html", **await header_of(service, name, ""))
