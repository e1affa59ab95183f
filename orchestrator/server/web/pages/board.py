"""The board and the list of tasks."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from orchestrator.daemon.inspection.board import Grouping
from orchestrator.daemon.service import Service
from orchestrator.server.rendering import task_lines
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.web.lists import Narrowed, board_values, choices
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.shared_parts import SHARED
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

Wanted = Annotated[Narrowed, Query()]


@router.get("/board")
async def board(request: Request, service: TheService, wanted: Wanted) -> Response:
    """Show tasks in columns, by status or by the stage of a pipeline."""
    parts = await _columns(service, wanted) | choices(await service.board.facets())
    return render(request, "board/page.html", groupings=tuple(Grouping), **parts)


@router.get("/board/columns", openapi_extra=SHARED)
async def columns(request: Request, service: TheService, wanted: Wanted) -> Response:
    """Show the columns alone."""
    return render(request, "board/_columns.html", **await _columns(service, wanted))


@router.get("/tasks")
async def tasks(request: Request, service: TheService, wanted: Wanted) -> Response:
    """Show a list of tasks, newest first."""
    parts = await _lines(service, wanted) | choices(await service.board.facets())
    return render(request, "tasks/page.html", **parts)


@router.get("/tasks/lines", openapi_extra=SHARED)
async def lines(request: Request, service: TheService, wanted: Wanted) -> Response:
    """Show the lines of the list alone."""
    return render(request, "tasks/_lines.html", **await _lines(service, wanted))


async def _columns(service: Service, wanted: Narrowed) -> dict[str, Any]:
    found = await service.board.board(wanted.query(), wanted.by)
    return dict(await asyncio.to_thread(board_values, found, wanted, service.redact))


async def _lines(service: Service, wanted: Narrowed) -> dict[str, Any]:
    found = await service.tasks.list(wanted.query())
    return {
        "narrowed": wanted,
        "lines": await asyncio.to_thread(task_lines, found.tasks, service.redact),
        "next_cursor": found.next_cursor or "",
        "unreadable": [service.redact(problem) for problem in found.unreadable],
    }
