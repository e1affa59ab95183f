"""Disk space: what takes it, what the policy would remove and when, what was removed last, and removing it now."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request, Response

from orchestrator.daemon.housekeeping.usage import usage
from orchestrator.daemon.service import Service
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.routes.oversight.disk import disk_view
from orchestrator.server.routes.oversight.disk import prune as prune_now
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.disk import PruneBody
from orchestrator.server.web.forms import Sent
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render
from orchestrator.server.web.views import RemovedView

router = APIRouter(prefix="/disk", route_class=PageRoute)

LARGEST, LAST = 12, 15
"""Tasks and removals that the page shows."""
MOST_SHOWN = 100
"""Items of a removal that are shown."""


class PruneForm(Sent):
    """Whether files are removed, or only shown that would be."""

    how: Literal["show", "remove"] = "show"


@router.get("")
async def disk(request: Request, service: TheService) -> Response:
    """Show what takes space, and what housekeeping does about it."""
    return render(request, "disk/page.html", **await _found(service))


@router.get("/now")
async def now(request: Request, service: TheService) -> Response:
    """Show the same alone."""
    return render(request, "disk/_now.html", **await _found(service))


@router.post("/prune", openapi_extra=ADMIN)
async def prune(request: Request, service: TheService, by: By, form: Annotated[PruneForm, Form()]) -> Response:
    """Follow the policy now, or show what that would remove."""
    found = await prune_now(PruneBody(dry_run=form.how == "show"), service, by)
    values: dict[str, Any] = {"pruned": found, "most": MOST_SHOWN}
    if "hx-request" not in request.headers:
        return render(request, "disk/pruned.html", **values)
    answer = render(request, "disk/_pruned.html", **values)
    if form.how == "remove":
        answer.headers["HX-Trigger-After-Swap"] = "live:tasks"
    return answer


async def _found(service: Service) -> dict[str, Any]:
    report, found = await service.disk.known_report(), None
    if report is not None:
        added_up = await asyncio.to_thread(usage, report, LARGEST, service.disk.clock())
        found = disk_view(report, added_up, service.redact)
    removed = [to_view(RemovedView, one, service.redact) for one in await service.disk.newest_removals(LAST)]
    return {"disk": found, "space": await service.disk.space(), "removed": removed}
