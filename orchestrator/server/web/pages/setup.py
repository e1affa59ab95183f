"""How the daemon is: its settings, what would stop a night, and the agents and checks that run."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from orchestrator.daemon.inspection.doctor_checks import Level
from orchestrator.daemon.inspection.settings import DEFAULT
from orchestrator.server.routes.daemon import status
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.inspection import doctor as examination
from orchestrator.server.routes.inspection import settings as settings_in_force
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.shared_parts import SHARED
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

WORST_FIRST = (Level.BAD, Level.WARN, Level.OK)


@router.get("/settings")
async def settings(
    request: Request, service: TheService, only_set: Annotated[bool, Query(alias="set")] = False
) -> Response:
    """Show every setting, or those that somebody set, and where each value comes from."""
    found = await settings_in_force(service)
    tables: dict[str, list[object]] = {}
    for one in found.values:
        if only_set and one.source == DEFAULT:
            continue
        tables.setdefault(one.name.rpartition(".")[0], []).append(one)
    return render(request, "settings/page.html", tables=tables, files=found.files, only_set=only_set)


@router.get("/doctor")
async def doctor(request: Request, service: TheService) -> Response:
    """Show what would stop an unattended night."""
    found = await examination(service)
    findings = sorted(found.findings, key=lambda one: WORST_FIRST.index(one.level))
    return render(request, "doctor/page.html", found=found, findings=findings)


@router.get("/agents")
async def agents(request: Request, service: TheService) -> Response:
    """Show the agents and checks that have a process."""
    return render(request, "agents/page.html", now=await status(service))


@router.get("/agents/running", openapi_extra=SHARED)
async def running(request: Request, service: TheService) -> Response:
    """Show the running agents and checks alone."""
    return render(request, "agents/_running.html", now=await status(service))
