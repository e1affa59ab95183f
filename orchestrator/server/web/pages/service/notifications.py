"""Notifications: how the channels do, what waits, what was told lately, and a test of a channel."""

from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import Field

from orchestrator.daemon.service import Service
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.routes.oversight.notifications import notifications as notifications_now
from orchestrator.server.routes.oversight.notifications import test as test_channel
from orchestrator.server.schemas.oversight.notifications import NotificationTestBody
from orchestrator.server.web.forms import Sent
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(prefix="/notifications", route_class=PageRoute)

ON_A_PAGE = 50

OnlyOpen = Annotated[bool, Query(alias="open", description="Only what waits or was given up.")]


class TestForm(Sent):
    """Which channel is tested."""

    channel: str = Field(max_length=60)


@router.get("")
async def notifications(request: Request, service: TheService, only_open: OnlyOpen = False) -> Response:
    """Show every channel, and the newest notices."""
    return render(request, "notifications/page.html", **await _found(service, only_open=only_open))


@router.get("/now")
async def now(request: Request, service: TheService, only_open: OnlyOpen = False) -> Response:
    """Show the same alone."""
    return render(request, "notifications/_now.html", **await _found(service, only_open=only_open))


@router.post("/test")
async def test(request: Request, service: TheService, by: By, form: Annotated[TestForm, Form()]) -> Response:
    """Send a test on a channel, and show what became of it within half a minute."""
    found = await test_channel(NotificationTestBody(channel=form.channel), service, by)
    values: dict[str, Any] = {"tested": found.notices, "channel": form.channel}
    if "hx-request" in request.headers:
        answer = render(request, "notifications/_tested.html", **values)
        answer.headers["HX-Trigger-After-Swap"] = "live:tasks"
        return answer
    return render(request, "notifications/tested.html", **values)


async def _found(service: Service, *, only_open: bool) -> dict[str, Any]:
    return {"found": await notifications_now(service, ON_A_PAGE, only_open), "only_open": only_open, "most": ON_A_PAGE}
