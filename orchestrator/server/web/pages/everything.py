"""What is done with all tasks at once: pause, resume, and end all agents before a restart."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from orchestrator.server.access.marks import ADMIN
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.page_route import PageRoute

router = APIRouter(prefix="/everything", route_class=PageRoute)


@router.post("/pause")
async def pause(request: Request, service: TheService, by: By, form: Annotated[Sent, Form()]) -> Response:
    """Pause every task, and every one submitted later."""
    await service.bulk.pause_all(by)
    return done(request, form.next)


@router.post("/resume")
async def resume(request: Request, service: TheService, by: By, form: Annotated[Sent, Form()]) -> Response:
    """Resume every task that waits for a person's word, and admit tasks again."""
    await service.bulk.resume_all(by)
    return done(request, form.next)


@router.post("/drain", openapi_extra=ADMIN)
async def drain(request: Request, service: TheService, by: By, form: Annotated[Sent, Form()]) -> Response:
    """Admit no more tasks and end every agent, keeping its session."""
    await service.bulk.drain(by)
    return done(request, form.next)
