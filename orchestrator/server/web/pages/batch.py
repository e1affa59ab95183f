"""What is done with several picked tasks at once; each is answered for itself."""

from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.daemon.access.verbs import MOST_NAMES, Verb
from orchestrator.daemon.services.bulk import Ask
from orchestrator.server.problems import problem_for
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import View, Words, to_view
from orchestrator.server.web.forms import own_path
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

OFFERED = frozenset({Verb.PAUSE, Verb.RESUME, Verb.RETRY, Verb.SUBMIT, Verb.ARCHIVE, Verb.CANCEL})
"""What the form below a list offers: nothing that has to be looked at first, or that cannot be undone."""


class Picked(BaseModel):
    """What the form below a list sends: the picked tasks, and what is to be done with each of them."""

    model_config = ConfigDict(frozen=True)

    task: tuple[str, ...] = Field(default=(), max_length=MOST_NAMES)
    verb: Verb
    next: str = Field(default="/tasks", max_length=500)


class RefusedView(View):
    """A picked task that did not allow it, and why."""

    task: str
    problem: Words


@router.post("/tasks/batch")
async def batch(request: Request, service: TheService, by: By, form: Annotated[Picked, Form()]) -> Response:
    """Do the same with every picked task, as far as each allows it."""
    if form.verb not in OFFERED:
        raise HTTPException(404)
    if not form.task:
        raise HTTPException(422, "no task is picked")
    outcomes = await service.batches.ask(tuple(dict.fromkeys(form.task)), Ask(verb=form.verb, by=by))
    refused = [
        to_view(RefusedView, {"task": one.name, "problem": problem_for(request, one.error).detail}, service.redact)
        for one in outcomes
        if one.error is not None
    ]
    values: dict[str, Any] = {
        "verb": form.verb,
        "refused": refused,
        "done": len(outcomes) - len(refused),
        "back": own_path(form.next, "/tasks"),
    }
    if "hx-request" not in request.headers:
        return render(request, "tasks/outcome.html", **values)
    answer = render(request, "tasks/_outcome.html", **values)
    answer.headers["HX-Trigger"] = "live:tasks"
    return answer
