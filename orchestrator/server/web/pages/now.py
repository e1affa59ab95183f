"""The first page: what needs a person, what is at work, what limits it."""

from typing import Any

from fastapi import APIRouter, Request, Response

from orchestrator.daemon.inspection.attention import Attention
from orchestrator.daemon.inspection.present import Alarm, AtWork
from orchestrator.daemon.service import Service
from orchestrator.server.rendering import request_view
from orchestrator.server.routes.daemon import glance
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.limits import limits_view
from orchestrator.server.schemas.base import Redact, compose_view, to_view
from orchestrator.server.schemas.events import OverviewView
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.shared_parts import SHARED
from orchestrator.server.web.templates import render
from orchestrator.server.web.views import AlarmView, AttentionView, AtWorkView

router = APIRouter(route_class=PageRoute)

MOST_AT_WORK = 30
"""How many live tasks the page shows; the others are on the board."""
MOST_NEEDS = 100


@router.get("/")
async def now(request: Request, service: TheService) -> Response:
    """Show everything that an operator wants to see first."""
    parts = _people(service) | await _work(service) | _alarms(service) | await _limits(service)
    return render(request, "now/page.html", **parts)


@router.get("/now/people", openapi_extra=SHARED)
async def people(request: Request, service: TheService) -> Response:
    """Show what needs a person."""
    return render(request, "now/_people.html", **_people(service))


@router.get("/now/work", openapi_extra=SHARED)
async def work(request: Request, service: TheService) -> Response:
    """Show what is at work, and how the daemon is."""
    return render(request, "now/_work.html", **await _work(service))


@router.get("/now/alarms", openapi_extra=SHARED)
async def alarms(request: Request, service: TheService) -> Response:
    """Show what happens next by itself."""
    return render(request, "now/_alarms.html", **_alarms(service))


@router.get("/now/limits", openapi_extra=SHARED)
async def limits_part(request: Request, service: TheService) -> Response:
    """Show usage windows and the day's budget."""
    return render(request, "now/_limits.html", **await _limits(service))


def _people(service: Service) -> dict[str, Any]:
    found = service.attention.list()
    views = [_attention(one, service.redact) for one in found[:MOST_NEEDS]]
    return {"needs": views, "needs_more": len(found) - len(views)}


async def _work(service: Service) -> dict[str, Any]:
    found = await service.present.at_work(MOST_AT_WORK)
    now = compose_view(OverviewView, service.redact, found.overview, found.overview.capacity, tasks=(), more=found.more)
    return {"now": now, "tasks": [_at_work(one, service.redact) for one in found.tasks]}


def _alarms(service: Service) -> dict[str, Any]:
    return {"alarms": [_alarm(one, service.redact) for one in service.present.alarms()]}


def _at_work(one: AtWork, redact: Redact) -> AtWorkView:
    return compose_view(AtWorkView, redact, one, glance=glance(one.task, one.why, redact))


def _alarm(one: Alarm, redact: Redact) -> AlarmView:
    task = one.task
    return compose_view(AlarmView, redact, one, task=task and task.id, title=task.title if task else "")


async def _limits(service: Service) -> dict[str, Any]:
    return {"limits": await limits_view(service, service.limits.report(), 0)}


def _attention(one: Attention, redact: Redact) -> AttentionView:
    view = None if one.request is None else request_view(one.task, one.request, redact)
    values = {
        "task": one.task.id,
        "title": one.task.title,
        "stage": one.task.stage,
        "since": one.since,
        "reason": one.task.block_reason or "",
        "request": view,
    }
    return to_view(AttentionView, values, redact)
