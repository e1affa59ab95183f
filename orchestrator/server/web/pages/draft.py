"""The form in which a draft is changed, and submitted."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from orchestrator.core.task.task import Task
from orchestrator.daemon.service import Service
from orchestrator.daemon.task_factory import Submission
from orchestrator.errors import OrchestratorError
from orchestrator.server.problems import problem_for
from orchestrator.server.rendering import submission_of
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import Redact
from orchestrator.server.web.editing.masks import MASKED, adds_mask, as_sent
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.new_task import choices_of_form
from orchestrator.server.web.submission_form import (
    Filled,
    Shown,
    Unfit,
    changed_named_checks,
    filled,
    refused,
    same_moment,
    typed,
    unfit,
)
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

CHANGED_MEANWHILE = "the draft was changed meanwhile; look at it in another window, then save this again to replace it"
FIELDS = ("title", "text", "pipeline", "type", "base", "after", "checks", "autonomy")


@router.get("/tasks/{name}/edit")
async def form(request: Request, service: TheService, name: str) -> Response:
    """Show a draft as a form."""
    draft, given = await service.submissions.given(name)
    return _page(request, service, draft.id, Shown(form=await _shown(service, draft, given)))


@router.post("/tasks/{name}/edit")
async def save(request: Request, service: TheService, name: str, by: By) -> Response:
    """Save a draft, and submit it if that is asked."""
    draft, given = await service.submissions.given(name)
    form = shown = await _shown(service, draft, given)
    try:
        form = (await filled(request)).model_copy(update={"repo": str(given.repo), "ticket": given.ticket or ""})
        changes = await asyncio.to_thread(_changes, form, shown, given, service.redact)
        if changes and form.seq != draft.seq:
            again = form.model_copy(update={"seq": draft.seq})
            return _page(request, service, draft.id, Shown(form=again, errors={"form": CHANGED_MEANWHILE}, status=409))
        await _save(service, draft.id, changes, by)
        if form.then == "submit":
            await service.tasks.submit_draft(draft.id, by)
    except Unfit as error:
        return _page(request, service, draft.id, unfit(form, error))
    except (OrchestratorError, OSError) as error:
        now, _ = await service.submissions.given(draft.id)
        again = form.model_copy(update={"seq": now.seq})
        return _page(request, service, draft.id, refused(again, problem_for(request, error)))
    return RedirectResponse(f"/tasks/{quote(draft.id)}", status_code=303)


async def _shown(service: Service, draft: Task, given: Submission) -> Filled:
    return await asyncio.to_thread(typed, given, draft.seq, service.redact)


def _changes(form: Filled, shown: Filled, given: Submission, redact: Redact) -> dict[str, Any]:
    """Return what somebody changed of a draft, by the names of its fields. Raises Unfit.

    What the form shows as it is stored stays, secrets too that it shows masked; so does what is left to the ticket.
    """
    body = form.body()
    wanted = submission_of(body)
    sent = {name: as_sent(getattr(form, name)).strip() for name in FIELDS}
    names = [name for name in FIELDS if sent[name] != getattr(shown, name).strip()]
    changes: dict[str, Any] = {name: value for name in names if (value := getattr(wanted, name))}
    for name in ("text", "title", "base"):
        if name in changes and adds_mask(sent[name], str(getattr(given, name) or "")):
            raise Unfit({name: MASKED})
    if "after" in names:
        changes["after"] = body.after
    if "checks" in names:
        changes["checks"] = changed_named_checks(form.checks, given.checks, redact)
    if not same_moment(wanted.at, given.at):
        changes["at"] = wanted.at
    if wanted.usd != given.usd:
        changes["caps"] = {"usd": wanted.usd}
    if wanted.priority not in {None, given.priority}:
        changes["priority"] = wanted.priority
    return changes


async def _save(service: Service, task_id: str, changes: Mapping[str, Any], by: str) -> None:
    of_task = {name: changes.get(name) for name in ("priority", "caps")}
    of_draft = {name: value for name, value in changes.items() if name not in of_task}
    if of_draft:
        await service.submissions.change(task_id, of_draft, by)
    if any(of_task.values()):
        await service.tasks.change(task_id, **of_task, by=by)


def _page(request: Request, service: Service, task_id: str, shown: Shown) -> Response:
    values = choices_of_form(service) | {"form": shown.form, "errors": shown.errors, "task": task_id}
    return render(request, "new/edit.html", status=shown.status, **values)
