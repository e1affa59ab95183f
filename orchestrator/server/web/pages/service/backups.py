"""Backups: those that there are, when the next one is made, making one now, and checking one."""

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from pydantic import Field

from orchestrator.daemon.backup.service import BackupBusy
from orchestrator.daemon.service import Service
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render
from orchestrator.server.web.views import BackupsView

router = APIRouter(prefix="/backups", route_class=PageRoute)


class CheckForm(Sent):
    """Which backup is checked."""

    file: str = Field(max_length=200)


@router.get("")
async def backups(request: Request, service: TheService) -> Response:
    """Show the backups of the data folder."""
    return render(request, "backups/page.html", **await _found(service))


@router.get("/now")
async def now(request: Request, service: TheService) -> Response:
    """Show the same alone."""
    return render(request, "backups/_now.html", **await _found(service))


@router.post("/make", openapi_extra=ADMIN)
async def make(request: Request, service: TheService, by: By, form: Annotated[Sent, Form()]) -> Response:
    """Have a backup made now; the same form sent twice has one made."""
    try:
        await service.backups.make(by)
    except BackupBusy:
        if not service.backups.is_making:
            raise
    return done(request, form.next)


@router.post("/check", openapi_extra=ADMIN)
async def check(request: Request, service: TheService, by: By, form: Annotated[CheckForm, Form()]) -> Response:
    """Have a backup read whole and compared with its digests."""
    await service.backups.check(form.file, by)
    return done(request, form.next)


async def _found(service: Service) -> dict[str, Any]:
    found = await service.backups.report()
    view = compose_view(
        BackupsView,
        service.redact,
        *(found, found.known, found.settings),
        daily_at=found.settings.at,
        is_making=found.asked is not None and not found.asked.check,
        checking=found.asked.check if found.asked else "",
    )
    return {"backups": view}
