"""The morning report."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from orchestrator.server.report_texts import WAITED_FOR
from orchestrator.server.report_words import say
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.reports import read_report
from orchestrator.server.web.languages import language_of
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
    language = language_of(request)
    waited_for = {reason: say(language, text) for reason, text in WAITED_FOR.items()}
    values: dict[str, Any] = {"report": found, "hours": hours, "spans": SPANS, "waited_for": waited_for}
    return render(request, "report/page.html", **values)
