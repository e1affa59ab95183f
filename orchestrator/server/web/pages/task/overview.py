"""The first page of a task: what it asks for, its plan, checks, failures, children, costs and publication."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Priority, Task
from orchestrator.daemon.service import Service
from orchestrator.server.rendering import task_view
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import Redact, View, Words, to_view
from orchestrator.server.schemas.tasks import ChildView, TaskView
from orchestrator.server.web.drawing.graph import Edge, Node, draw_graph
from orchestrator.server.web.languages import language_of, translate
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

MOST_PATTERNS = 20
MOST_REQUESTS = 50
"""How many answered requests the page shows, newest first."""


class PatternView(View):
    """What several failures have in common."""

    pattern: Words
    occurrences: int
    failure_ids: tuple[str, ...]


@router.get("/tasks/{name}")
async def overview(request: Request, service: TheService, name: str) -> Response:
    """Show one task; an abbreviated id leads to the whole one."""
    task = await service.tasks.find(name)
    if task.id != name:
        return RedirectResponse(f"/tasks/{task.id}", status_code=307)
    parts = await header_of(service, name, "overview") | await _state(request, service, task)
    return render(request, "task/overview.html", **parts)


@router.get("/tasks/{name}/people")
async def people(request: Request, service: TheService, name: str) -> Response:
    """Show what the task asks of a person."""
    return render(request, "task/_people.html", **await _state(request, service, await service.tasks.find(name)))


@router.get("/tasks/{name}/state")
async def state(request: Request, service: TheService, name: str) -> Response:
    """Show everything on the page that changes by itself."""
    return render(request, "task/_state.html", **await _state(request, service, await service.tasks.find(name)))


async def _state(request: Request, service: Service, task: Task) -> dict[str, Any]:
    spent, language = service.tasks.spent_by_all(task), language_of(request)
    return await asyncio.to_thread(_views, task, spent, service.redact, language)


def _views(task: Task, spent: Spending, redact: Redact, language: str) -> dict[str, Any]:
    view = task_view(task, redact, spent)
    patterns = sorted(task.failures.patterns, key=lambda one: -one.occurrences)[:MOST_PATTERNS]
    answered = [one for one in reversed(view.requests) if one.status != "pending"]
    return {
        "task": view,
        "home": f"/tasks/{view.id}",
        "answered": answered[:MOST_REQUESTS],
        "patterns": [to_view(PatternView, one, redact) for one in patterns],
        "graph": _graph(view.children, translate(language, "Children")) if view.children else None,
        "priorities": tuple(Priority),
        "pull_request": _web_address(view),
    }


def _graph(children: Sequence[ChildView], label: str) -> str:
    """Return a drawing of what waits for what among the children."""
    nodes = [
        Node(
            key=one.key,
            title=one.key,
            lines=(one.title, one.status.value),
            kind=one.status.value,
            about=f"{one.key}: {one.title} · {one.status.value}" + (f" · {one.reason}" if one.reason else ""),
            href=f"/tasks/{one.task}" if one.task else "",
        )
        for one in children
    ]
    edges = [Edge(source=above, target=one.key) for one in children for above in one.after]
    return draw_graph(nodes, edges, label)


def _web_address(task: TaskView) -> str | None:
    """Return the address of the pull request, if a browser may be led there."""
    url = task.publication.pr_url or ""
    return url if url.startswith(("https://", "http://")) else None
