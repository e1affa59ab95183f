"""What forms on the pages of a task change, beyond what all tasks have in common: see ..forms."""

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from orchestrator.core.task.task import Priority
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.page_route import PageRoute

router = APIRouter(route_class=PageRoute)


class CapsForm(BaseModel):
    """New caps and the priority; a field that is left empty means no cap."""

    model_config = ConfigDict(frozen=True)

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    priority: Priority | None = None

    @field_validator("usd", "tokens", "turns", "hours", mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        return None if value == "" else value

    @property
    def caps(self) -> dict[str, Any]:
        """The caps alone."""
        return self.model_dump(exclude={"priority"})


@router.post("/tasks/{name}/change")
async def change(
    request: Request, service: TheService, by: By, name: str, form: Annotated[CapsForm, Form()]
) -> Response:
    """Change the caps and the priority; a task that its old caps paused resumes if the new ones allow it."""
    task = await service.tasks.change(name, form.priority, form.caps, by)
    return done(request, f"/tasks/{task.id}")


@router.post("/tasks/{name}/retry")
async def retry(request: Request, service: TheService, by: By, name: str, form: Annotated[Sent, Form()]) -> Response:
    """Try a blocked task again; a failed one as a new task, whose page is shown then."""
    before = await service.tasks.find(name)
    task = await service.tasks.retry(name, by)
    return done(request, form.next) if task.id == before.id else _leave(request, f"/tasks/{task.id}")


class DeleteForm(BaseModel):
    """How a task is deleted: with `force` also work that exists nowhere else."""

    model_config = ConfigDict(frozen=True)

    force: bool = False


@router.post("/tasks/{name}/delete", openapi_extra=ADMIN)
async def delete(
    request: Request, service: TheService, by: By, name: str, form: Annotated[DeleteForm, Form()]
) -> Response:
    """Delete a draft or an ended task with all its files."""
    await service.tasks.delete(name, by, force=form.force)
    return _leave(request, "/tasks")


def _leave(request: Request, to: str) -> Response:
    """Return another page; a script that sent the form has the browser go there."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Redirect": to})
    return RedirectResponse(to, status_code=303)
