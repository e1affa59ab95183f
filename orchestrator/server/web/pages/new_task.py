"""The form for a new task, with a look at what it would become."""

import asyncio
from secrets import token_hex
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.service import Service
from orchestrator.errors import OrchestratorError
from orchestrator.server.idempotency import IdempotencyKeys, key_of
from orchestrator.server.problems import KeyTaken, problem_for
from orchestrator.server.rendering import preview_view, submission_of
from orchestrator.server.routes.dependencies import TheCaller, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.daemon import PipelineView
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.pipelines import draw_pipeline
from orchestrator.server.web.submission_form import Filled, Shown, Unfit, filled, refused, unfit
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

SENT_BEFORE = "this form was sent before with other words; send it again to submit a second task"


@router.get("/tasks/new")
async def form(request: Request, service: TheService, prefilled: Annotated[Filled, Query()]) -> Response:
    """Show the form; its address may fill in fields."""
    known = (await service.board.facets()).repositories
    start = prefilled.model_copy(update={"key": "", "repo": prefilled.repo or next(iter(known), "")})
    return await _page(request, service, Shown(form=start))


@router.post("/tasks/new/preview")
async def preview(request: Request, service: TheService) -> Response:
    """Show what the form would make: beside it for a script, else in a page with the form as it was filled in."""
    try:
        form = await filled(request)
    except Unfit as error:
        return await _page(request, service, unfit(Filled(), error))
    part = await _preview(request, service, form)
    if "hx-request" in request.headers:
        return render(request, "new/_preview.html", **part)
    return await _page(request, service, Shown(form=form), part)


@router.post("/tasks")
async def submit(request: Request, service: TheService, caller: TheCaller) -> Response:
    """Submit a task and go to its page; the same form sent twice makes one task."""
    form = Filled()
    try:
        form = await filled(request)
        body = await asyncio.to_thread(form.body)
    except Unfit as error:
        return await _page(request, service, unfit(form, error))

    async def take() -> str:
        return (await service.submissions.submit(submission_of(body), body.after, str(caller))).id

    keys: IdempotencyKeys = request.app.state.keys
    key = key_of(caller, "form", form.key or token_hex(16))
    try:
        task_id = await keys.once(key, form.model_dump_json().encode(), take)
    except KeyTaken:
        again = form.model_copy(update={"key": token_hex(16)})
        return await _page(request, service, Shown(form=again, errors={"form": SENT_BEFORE}, status=409))
    except (OrchestratorError, OSError) as error:
        return await _page(request, service, refused(form, problem_for(request, error)))
    return RedirectResponse(f"/tasks/{quote(task_id)}", status_code=303)


async def _page(request: Request, service: Service, shown: Shown, preview: dict[str, Any] | None = None) -> Response:
    """Return the page with the form, and what it would make."""
    known, form = await service.board.facets(), shown.form
    form = form if form.key else form.model_copy(update={"key": token_hex(16)})
    part = preview or _nothing_yet(service.status.definitions().pipelines.get(form.pipeline), service.redact)
    values = {"form": form, "errors": shown.errors, "repositories": known.repositories}
    return render(request, "new/page.html", status=shown.status, **(choices_of_form(service) | part | values))


def choices_of_form(service: Service) -> dict[str, Any]:
    """Return what can be chosen in the forms of new tasks and drafts."""
    return {
        "pipelines": sorted(service.status.definitions().pipelines),
        "types": tuple(TicketType),
        "priorities": tuple(Priority),
        "autonomies": tuple(Autonomy),
    }


async def _preview(request: Request, service: Service, form: Filled) -> dict[str, Any]:
    chosen = service.status.definitions().pipelines.get(form.pipeline)
    if not form.repo.strip():
        return _nothing_yet(chosen, service.redact)
    try:
        body = await asyncio.to_thread(form.body, needs_text=False)
        found = await service.preview.preview(submission_of(body), body.after)
    except Unfit as error:
        return {**_nothing_yet(chosen, service.redact), "refusal": str(error)}
    except (OrchestratorError, OSError) as error:
        return {**_nothing_yet(chosen, service.redact), "refusal": problem_for(request, error).detail}
    view = preview_view(found, service.redact)
    return {"preview": view, "graph": _graph(found.pipeline, service.redact), "chosen": view.pipeline, "refusal": ""}


def _nothing_yet(pipeline: Pipeline | None, redact: Redact) -> dict[str, Any]:
    """Return what is shown while only the pipeline is known, if that."""
    view = pipeline and compose_view(PipelineView, redact, pipeline, stages=tuple(pipeline.stages.values()))
    return {"preview": None, "graph": _graph(pipeline, redact), "chosen": view, "refusal": ""}


def _graph(pipeline: Pipeline | None, redact: Redact) -> str:
    return draw_pipeline(pipeline, redact) if pipeline else ""
