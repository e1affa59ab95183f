"""Schedules: what is submitted again and again, what the next hours bring, and the hours in which tasks may run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_hex
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from orchestrator.daemon.schedules.ahead import Ahead
from orchestrator.daemon.schedules.changes import with_changes
from orchestrator.daemon.schedules.errors import NoSuchSchedule
from orchestrator.daemon.service import Service
from orchestrator.errors import OrchestratorError
from orchestrator.server.idempotency import IdempotencyKeys, key_of
from orchestrator.server.problems import HttpProblem, KeyTaken, problem_for
from orchestrator.server.routes.dependencies import By, TheCaller, TheService
from orchestrator.server.routes.intake.schedules import schedule_view
from orchestrator.server.routes.intake.schedules import schedules as listed
from orchestrator.server.schemas.intake.schedules import ScheduleView
from orchestrator.server.web.drawing.hours import Lane, draw_hours
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.languages import language_of, translate
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.new_task import SENT_BEFORE, choices_of_form
from orchestrator.server.web.pages.service.schedule_form import ScheduleForm, form_of
from orchestrator.server.web.submission_form import Unfit
from orchestrator.server.web.templates import render

router = APIRouter(prefix="/schedules", route_class=PageRoute)

AHEAD = timedelta(hours=24)
MOST_AHEAD = 200
"""Runs in the drawing of the next hours."""
MOST_LISTED, MOST_LANES = 12, 14
"""Runs that are listed below it, and lanes that it has."""
CHANGED_MEANWHILE = (
    "the schedule was changed meanwhile; look at it in another window, then save this again to replace it"
)
NEXT_TIMES = 3
"""Times that are shown while a line is typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The form as it is shown: what was typed, what is wrong with it by field, the status, and what it changes."""

    form: ScheduleForm
    errors: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    changes: str = ""


class RunForm(Sent):
    """What the button sends that submits a task now; the same `key` submits one."""

    key: str = Field(default="", max_length=100)


@router.get("")
async def schedules(request: Request, service: TheService) -> Response:
    """Show every schedule, and the next 24 hours."""
    return render(request, "schedules/page.html", **await _now(request, service))


@router.get("/all/list")
async def now(request: Request, service: TheService) -> Response:
    """Show the schedules and the next hours alone."""
    return render(request, "schedules/_now.html", **await _now(request, service))


@router.get("/new/form")
async def new(request: Request, service: TheService) -> Response:
    """Show the form for a new schedule."""
    known = (await service.board.facets()).repositories
    return await _form(request, service, Shown(form=ScheduleForm(repo=next(iter(known), ""))))


@router.get("/new/line")
async def preview(
    request: Request,
    service: TheService,
    line: Annotated[str, Query(max_length=300)] = "",
    zone: Annotated[str, Query(max_length=100)] = "",
) -> Response:
    """Show when a line is due that somebody types."""
    return render(request, "schedules/_line.html", **await _preview(service, line.strip(), zone.strip()))


@router.post("")
async def add(
    request: Request, service: TheService, caller: TheCaller, form: Annotated[ScheduleForm, Form()]
) -> Response:
    """Add a schedule and go to its page; the same form sent twice adds one."""

    async def take() -> str:
        return (await service.schedules.add(wanted, str(caller))).id

    try:
        wanted = await asyncio.to_thread(form.wanted)
        made = await _once(request, caller, form.key, form.model_dump_json().encode(), take)
    except Unfit as error:
        return await _form(request, service, Shown(form=form, errors=error.errors, status=422))
    except KeyTaken:
        again = form.model_copy(update={"key": token_hex(16)})
        return await _form(request, service, Shown(form=again, errors={"form": SENT_BEFORE}, status=409))
    except (OrchestratorError, OSError) as error:
        return await _form(request, service, _refused(form, problem_for(request, error)))
    return RedirectResponse(f"/schedules/{quote(made)}", status_code=303)


@router.get("/{name}")
async def schedule(request: Request, service: TheService, name: str) -> Response:
    """Show a schedule, and what became of its times."""
    return render(request, "schedules/one.html", **await _one(service, name))


@router.get("/{name}/now")
async def schedule_now(request: Request, service: TheService, name: str) -> Response:
    """Show how a schedule stands alone."""
    return render(request, "schedules/_one.html", **await _one(service, name))


@router.get("/{name}/change")
async def edit(request: Request, service: TheService, name: str) -> Response:
    """Show the form that changes a schedule."""
    found = await asyncio.to_thread(form_of, await service.schedules.find(name), service.redact)
    return await _form(request, service, Shown(form=found, changes=name))


@router.post("/{name}/change")
async def change(
    request: Request, service: TheService, by: By, name: str, form: Annotated[ScheduleForm, Form()]
) -> Response:
    """Change what somebody changed of a schedule and go back to its page; the same form sent twice changes it once."""
    before = await service.schedules.find(name)
    now = await asyncio.to_thread(form_of, before, service.redact)
    try:
        changes = await asyncio.to_thread(form.changes, before, service.redact)
        if with_changes(before, changes) != before:
            if form.seen not in {"", now.seen}:
                again = form.model_copy(update={"seen": now.seen})
                shown = Shown(form=again, errors={"form": CHANGED_MEANWHILE}, status=409, changes=name)
                return await _form(request, service, shown)
            await service.schedules.change(name, changes, by)
    except Unfit as error:
        return await _form(request, service, Shown(form=form, errors=error.errors, status=422, changes=name))
    except (OrchestratorError, OSError) as error:
        return await _form(request, service, _refused(form, problem_for(request, error), name))
    return RedirectResponse(f"/schedules/{quote(name)}", status_code=303)


@router.post("/{name}/run")
async def run(
    request: Request, service: TheService, caller: TheCaller, name: str, form: Annotated[RunForm, Form()]
) -> Response:
    """Submit a task of a schedule now; the same button pressed twice submits one."""

    async def take() -> str:
        return (await service.schedules.run_now(name, str(caller))).id

    await _once(request, caller, form.key, f"run {name}".encode(), take)
    return done(request, form.next)


@router.post("/{name}/pause")
async def pause(request: Request, service: TheService, by: By, name: str, form: Annotated[Sent, Form()]) -> Response:
    """Submit no more tasks of a schedule until it is resumed."""
    await service.schedules.pause(name, by)
    return done(request, form.next)


@router.post("/{name}/resume")
async def resume(request: Request, service: TheService, by: By, name: str, form: Annotated[Sent, Form()]) -> Response:
    """Submit tasks of a schedule again."""
    await service.schedules.resume(name, by)
    return done(request, form.next)


@router.post("/{name}/remove")
async def remove(request: Request, service: TheService, by: By, name: str, form: Annotated[Sent, Form()]) -> Response:
    """Remove a schedule; its tasks stay. One that was removed before is removed as well."""
    with suppress(NoSuchSchedule):
        await service.schedules.remove(name, by)
    return done(request, form.next)


def _refused(form: ScheduleForm, problem: HttpProblem, changes: str = "") -> Shown:
    return Shown(form=form, errors={"form": problem.detail}, status=problem.status, changes=changes)


async def _once(request: Request, caller: TheCaller, key: str, meant: bytes, take: Callable[[], Awaitable[str]]) -> str:
    """Do what a form asks for, once for its key."""
    keys: IdempotencyKeys = request.app.state.keys
    return await keys.once(key_of(caller, "form", key or token_hex(16)), meant, take)


async def _now(request: Request, service: Service) -> dict[str, Any]:
    views = (await listed(service)).schedules
    ahead = await service.schedules.ahead(AHEAD, MOST_AHEAD)
    more = len(ahead.runs) - MOST_LISTED
    return {
        "schedules": views,
        "windows": service.limits.report().run_windows,
        "strip": _strip(ahead, views, language_of(request)),
        "runs": ahead.runs[:MOST_LISTED],
        "more_runs": f"{more}+" if ahead.more else str(more) if more > 0 else "",
        "keys": {one.name: token_hex(16) for one in views},
    }


async def _one(service: Service, name: str) -> dict[str, Any]:
    view: ScheduleView = schedule_view(service, await service.schedules.find(name))
    return {"schedule": view, "key": token_hex(16)}


def _strip(ahead: Ahead, views: Sequence[ScheduleView], language: str) -> object:
    """Return the next hours as a drawing; nothing if they bring nothing."""
    lanes = [Lane(name=one.window, kind="window", spans=one.spans) for one in ahead.windows]
    due = {one.name: [run.at for run in ahead.runs if run.schedule == one.name] for one in views}
    lanes += [Lane(name=name, kind="schedule", times=times) for name, times in due.items() if times]
    label = translate(language, "the next 24 hours", "words")
    return draw_hours(lanes[:MOST_LANES], ahead.now, ahead.until, label, translate(language, "now", "words"))


async def _preview(service: Service, line: str, zone: str) -> dict[str, Any]:
    if not line:
        return {"line": "", "zone": zone, "times": (), "refusal": ""}
    try:
        times = await service.schedules.next_times(line, zone, NEXT_TIMES)
    except OrchestratorError as error:
        return {"line": line, "zone": zone, "times": (), "refusal": str(error)}
    return {"line": line, "zone": str(times[0].tzinfo) if times else zone, "times": times, "refusal": ""}


async def _form(request: Request, service: Service, shown: Shown) -> Response:
    """Return the page with the form."""
    form = shown.form if shown.form.key else shown.form.model_copy(update={"key": token_hex(16)})
    values = {
        "form": form,
        "errors": shown.errors,
        "changes": shown.changes,
        "repositories": (await service.board.facets()).repositories,
    }
    due = await _preview(service, form.line, form.zone)
    return render(request, "schedules/form.html", status=shown.status, **choices_of_form(service), **values, **due)
