"""Work that comes in by itself: its sources, what came in from them, and what was refused."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from orchestrator.daemon.service import Service
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.intake.hooks import intake as intake_now
from orchestrator.server.schemas.intake.intake import IntakeFilter
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(prefix="/intake", route_class=PageRoute)

ON_A_PAGE = 100

Refused = Annotated[bool, Query(description="Only what was refused.")]


@router.get("")
async def intake(request: Request, service: TheService, refused: Refused = False) -> Response:
    """Show the inbox, the queries and the webhooks, and what came in from them, newest first."""
    return render(request, "intake/page.html", **await _found(service, refused=refused))


@router.get("/now")
async def now(request: Request, service: TheService, refused: Refused = False) -> Response:
    """Show the same alone."""
    return render(request, "intake/_now.html", **await _found(service, refused=refused))


async def _found(service: Service, *, refused: bool) -> dict[str, Any]:
    found = await intake_now(service, IntakeFilter(limit=ON_A_PAGE, refused=refused))
    return {"intake": found, "refused": refused, "most": ON_A_PAGE}
