"""A task's journal: page by page, each decision in words, and each one whole on request."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from orchestrator.daemon.history.journals import PAGE
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

Seq = Annotated[int | None, Query(ge=1, lt=2**53)]


@router.get("/tasks/{name}/journal")
async def journal(request: Request, service: TheService, name: str, seq: Seq = None) -> Response:
    """Show the page of the journal that has a decision, or the newest one."""
    header = await header_of(service, name, "journal")
    page = await service.history.journals.page(name, seq)
    is_newest = page.first <= page.newest <= page.last
    parts = {"page": page, "size": PAGE, "seq": seq, "follows": is_newest}
    is_part = "hx-request" in request.headers
    return render(request, "task/_journal.html" if is_part else "task/journal.html", **(header | parts))


@router.get("/tasks/{name}/journal/{seq}")
async def line(request: Request, service: TheService, name: str, seq: Annotated[int, Path(ge=1, lt=2**53)]) -> Response:
    """Show one decision, whole."""
    text = await service.history.journals.line(name, seq)
    if "hx-request" in request.headers:
        return render(request, "task/_journal_line.html", text=text)
    header = await header_of(service, name, "journal")
    return render(request, "task/journal_line.html", **(header | {"text": text, "seq": seq}))
