"""What limits work: usage windows, the day's budget, and who waits for them."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter

from orchestrator.daemon.service import Service
from orchestrator.daemon.services import errors
from orchestrator.daemon.services.limits import LimitedTask, LimitsReport
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.rendering import spent_view
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.limits import DayView, HeldView, LimitsView, WindowView
from orchestrator.server.schemas.tasks import CapsView

router = APIRouter(prefix="/api", tags=["daemon"], route_class=KeyedRoute)


@router.get("/limits")
async def limits(service: TheService) -> LimitsView:
    """Show the account's windows, the day's budget, and every task that one of them keeps from continuing."""
    return await limits_view(service, service.limits.report())


@router.delete("/limits", responses=refuses(errors.NoSuchWindow))
async def forget(service: TheService, by: By, window: str | None = None) -> LimitsView:
    """Forget that a window, or any, is used up: after changing the account or buying more usage. Shows what is left."""
    return await limits_view(service, await service.limits.forget(window, by))


async def limits_view(service: Service, report: LimitsReport, most: int | None = None) -> LimitsView:
    """Return what limits work, with the first so many tasks that wait for that."""
    held = await service.limits.limited_tasks(report, most)
    return await asyncio.to_thread(_limits, report, held, service.redact)


def _limits(report: LimitsReport, held: Sequence[LimitedTask], redact: Redact) -> LimitsView:
    snapshot = report.snapshot
    windows = sorted(report.windows.items())
    return compose_view(
        LimitsView,
        redact,
        *(report, snapshot.capacity),
        windows=tuple(compose_view(WindowView, redact, window, name=name) for name, window in windows),
        walls=report.active,
        day=DayView(
            day=f"{snapshot.now:%Y-%m-%d}",
            spent=spent_view(report.spent_today),
            caps=CapsView.model_validate(snapshot.capacity.day),
            used_up=report.day_used_up,
        ),
        held=tuple(_held(one, redact) for one in held),
    )


def _held(one: LimitedTask, redact: Redact) -> HeldView:
    because = one.why.facts[0]
    return compose_view(HeldView, redact, *(one, one.task, one.why, one.task.agent), task=one.task.id, because=because)
