"""The audit: who did what."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.daemon.inspection.audit import AuditQuery
from orchestrator.errors import NoSuchTask
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.inspection import read_audit
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

ON_A_PAGE = 100


class Wanted(BaseModel):
    """What the page is narrowed to."""

    model_config = ConfigDict(frozen=True)

    by: str = Field(default="", max_length=200)
    task: str = Field(default="", max_length=200)
    before: Annotated[int, Field(ge=1, lt=2**62)] | None = None


@router.get("/audit")
async def audit(request: Request, service: TheService, wanted: Annotated[Wanted, Query()]) -> Response:
    """Show the decisions that somebody asked for, newest first."""
    name, unknown = wanted.task.strip(), False
    try:
        task = (await service.tasks.find(name)).id if name else ""
    except NoSuchTask:
        task, unknown = "", True
    query = AuditQuery(before=wanted.before, by=wanted.by.strip(), task=task, limit=ON_A_PAGE)
    found = await read_audit(service, query)
    return render(request, "audit/page.html", found=found, wanted=wanted, unknown=unknown)
