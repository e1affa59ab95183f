"""The form in which a draft is changed, and submitted."""

from dataclasses import replace
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
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.new_task import choices_of_form
from orchestrator.server.web.submission_form import Shown, Unfit, filled, refused, same_moment, typed, unfit
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

CHANGED_MEANWHILE = "the draft was changed meanwhile; look at it in another window, then save this again to replace it"
FIELDS = ("title", "text", "pipeline", "type", "base", "after", "checks", "autonomy")


@router.get("/tasks/{name}/edit")
async def form(request: Request, service: TheService, name: str) -> Response:
    """Show a draft as a form."""
    draft, given = await _given(service, name)
    return _page(request, service, draft.id, Shown(form=typed(given, draft.seq)))


@router.post("/tasks/{name}/edit")
async def save(request: Request, service: TheService, name: str, by: By) -> Response:
    """Save a draft, and submit it if that is asked."""
    draft, given = await _given(service, name)
    form = typed(given, draft.seq)
    try:
        form = (await filled(request)).model_copy(update={"repo": str(given.repo), "ticket": given.ticket or ""})
        wanted = submission_of(form.body())
        if form.seq != draft.seq:
            again = form.model_copy(update={"seq": draft.seq})
            return _page(request, service, draft.id, Shown(form=again, errors={"form": CHANGED_MEANWHILE}, status=409))
        await _save(service, draft.id, given, replace(wanted, after=form.body().after), by)
        if form.then == "submit":
            await service.tasks.submit_draft(draft.id, by)
    except Unfit as error:
        return _page(request, service, draft.id, unfit(form, error))
    except (OrchestratorError, OSError) as error:
        now, _ = await service.submissions.given(draft.id)
        again = form.model_copy(update={"seq": now.seq})
        return _page(request, service, draft.id, refused(again, problem_for(request, error)))
    return RedirectResponse(f"/tasks/{quote(draft.id)}", status_code=303)


async def _given(service: Service, name: str) -> tuple[Task, Submission]:
    """Return a draft, and its submission as it may be shown."""
    draft, given = await service.submissions.given(name)
    return draft, replace(given, text=service.redact(given.text).strip("\n"), title=service.redact(given.title))


async def _save(service: Service, task_id: str, given: Submission, wanted: Submission, by: str) -> None:
    """Change what differs; what the form leaves to the ticket stays."""
    changes = {
        name: value
        for name in FIELDS
        if (value := getattr(wanted, name)) != getattr(given, name) and (value or name in {"after", "checks"})
    }
    if not same_moment(wanted.at, given.at):
        changes["at"] = wanted.at
    if changes:
        await service.submissions.change(task_id, changes, by)
    caps = None if wanted.usd == given.usd else {"usd": wanted.usd}
    priority = None if wanted.priority == given.priority else wanted.priority
    if caps is not None or priority is not None:
        await service.tasks.change(task_id, priority, caps, by)


def _page(request: Request, service: Service, task_id: str, shown: Shown) -> Response:
    values = choices_of_form(service) | {"form": shown.form, "errors": shown.errors, "task": task_id}
    return render(request, "new/edit.html", status=shown.status, **values)
