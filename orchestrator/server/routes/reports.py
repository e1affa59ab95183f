"""What an operator reads about the whole: the night report, statistics, and metrics for Prometheus."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.reporting.metrics import CONTENT_TYPE
from orchestrator.daemon.service import Service
from orchestrator.errors import OrchestratorError
from orchestrator.server.openapi.refusals import Responses, refuses
from orchestrator.server.report_texts import ReportFormat, as_text
from orchestrator.server.report_views import report_view, statistics_view
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import Instant
from orchestrator.server.schemas.oversight.reports import ReportView, StatisticsView

router = APIRouter(tags=["reports"])

MEDIA = {
    ReportFormat.JSON: "application/json",
    ReportFormat.MARKDOWN: "text/markdown; charset=utf-8",
    ReportFormat.TEXT: "text/plain; charset=utf-8",
    ReportFormat.HTML: "text/html; charset=utf-8",
}
OTHER_FORMS: Responses = {
    200: {"content": {media.partition(";")[0]: {"schema": {"type": "string"}} for media in list(MEDIA.values())[1:]}}
}
MOST_DAYS = 90


EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""Nothing happened before or will after, and every zone can write them."""


@router.get("/api/report", response_model=ReportView, responses=OTHER_FORMS | refuses(OrchestratorError))
async def report(
    service: TheService,
    since: Instant | None = None,
    until: Instant | None = None,
    format: Annotated[ReportFormat, Query()] = ReportFormat.JSON,  # noqa: A002 - the name of the parameter
    language: Annotated[Literal["en", "ko"] | None, Query(description="By default that of notices.")] = None,
) -> Response:
    """Show what happened since a time, by default in the last 24 hours, and what waits for a person now."""
    view = await read_report(service, since, until)
    written = await aside(as_text, view, format, UTC, language or service.notifications.announcer.language())
    return Response(written, headers={"Content-Type": MEDIA[format]})


@router.get("/api/stats")
async def stats(service: TheService, days: Annotated[int, Query(ge=1, le=MOST_DAYS)] = 7) -> StatisticsView:
    """Show what was completed and spent on each of the last days (UTC), by repository, pipeline, role and model."""
    return await read_statistics(service, days)


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def metrics(service: TheService) -> Response:
    """Show metrics in Prometheus' text format."""
    return Response(await service.oversight.metrics.scrape(), headers={"Content-Type": CONTENT_TYPE})


async def read_report(service: Service, since: datetime | None, until: datetime | None) -> ReportView:
    """Return the night report of a span; its texts are redacted in a thread."""
    found = await service.oversight.report.report(since, until)
    return await aside(report_view, found, service.redact)


async def read_statistics(service: Service, days: int) -> StatisticsView:
    """Return the statistics of the last days."""
    found = await service.oversight.statistics.statistics(days)
    return await aside(statistics_view, found, service.redact)
