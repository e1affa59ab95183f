"""What browsers report that a page was kept from doing by its policy: the daemon's log has it."""

from collections.abc import Mapping
from contextlib import suppress

import orjson
import structlog
from fastapi import APIRouter, Request, Response
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.requests import ClientDisconnect

from orchestrator.daemon.service import Service
from orchestrator.server.problems import HttpProblem, RefusedRequest
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.web.page_route import PageRoute

log = structlog.get_logger()

router = APIRouter(route_class=PageRoute)

LARGEST_REPORT = 16 * 1024
"""Bytes."""
LONGEST_VALUE = 200
LOGGED = RateLimitItemPerMinute(20)
FIELDS = ("document-uri", "effective-directive", "violated-directive", "blocked-uri", "source-file", "line-number")


class PolicyReports:
    """Writes reports to the log, as many in a minute as somebody could read."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def record(self, content: bytes, service: Service) -> None:
        """Log a report, or nothing if it is none or one too many."""
        try:
            told = orjson.loads(content)["csp-report"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return
        if isinstance(told, Mapping) and self._limiter.hit(LOGGED):
            said = {name.replace("-", "_"): service.redact(_text(told.get(name))) for name in FIELDS}
            log.warning("page_policy_violated", **said)


def _text(value: object) -> str:
    """Return what a browser tells in one field; nothing of what no browser sends there."""
    return str(value)[:LONGEST_VALUE] if isinstance(value, str | int) else ""


@router.post("/csp-reports")
async def report(request: Request, service: TheService) -> Response:
    """Take a report of a browser."""
    content = b""
    with suppress(ClientDisconnect):
        async for piece in request.stream():
            content += piece
            if len(content) > LARGEST_REPORT:
                raise RefusedRequest(HttpProblem(413, "too-large", "The report is too large", "no browser sends more"))
    reports: PolicyReports = request.app.state.policy_reports
    reports.record(content, service)
    return Response(status_code=204)
