"""The morning report."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.reports import read_report
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

SPANS = (8, 16, 24, 72, 168)
"""Hours that the page offers."""
MOST_HOURS = 31 * 24


@router.get("/report")
async def report(
    request: Request, service: TheService, hours: Annotated[int, Query(ge=1, le=MOST_HOURS)] = 16
) -> Response:
    """Show what happened in the last hours, and what waits for a person."""
    found = await read_report(service, datetime.now(UTC) - timedelta(hours=hours), None)
    values: dict[str, Any] = {"report": found, "hours": hours, "spans": SPANS}
    return render(request, "report/page.html", **values)
