"""What limits work: usage windows, the day's budget, and who waits for them."""

from collections.abc import Callable

from fastapi import APIRouter

from orchestrator.core.task.usage_limits import Windows
from orchestrator.daemon.services.limits import LimitedTask, LimitsReport
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.rendering import spent_shown
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.limits import DayView, HeldView, LimitsView, WallView, WindowView

router = APIRouter(prefix="/api", tags=["daemon"], route_class=KeyedRoute)


@router.get("/limits")
async def limits(service: TheService) -> LimitsView:
    """Show the account's windows, the day's budget, and every task that one of them keeps from continuing."""
    return _limits(service.limits.report(), service.redact)


@router.delete("/limits")
async def forget(service: TheService, by: By, window: str | None = None) -> LimitsView:
    """Forget that a window, or any, is used up: after changing the account or buying more usage. Shows what is left."""
    return _limits(await service.limits.forget(window, by), service.redact)


def _limits(report: LimitsReport, redact: Callable[[str], str]) -> LimitsView:
    snapshot = report.snapshot
    day = {
        "day": f"{snapshot.now:%Y-%m-%d}",
        "spent": spent_shown(report.spent_today),
        "caps": snapshot.capacity.day,
        "used_up": report.day_used_up,
    }
    shown = {
        "windows": [_window(snapshot.windows, name) for name in sorted(snapshot.windows)],
        "walls": [WallView.model_validate(limit) for limit in report.active],
        "day": DayView.model_validate(day),
        "places": snapshot.capacity.places,
        "places_now": report.places_now,
        "held": [_held(one, redact) for one in report.tasks],
    }
    return to_view(LimitsView, shown, redact)


def _window(windows: Windows, name: str) -> WindowView:
    window = windows[name]
    return WindowView(
        name=name,
        status=window.status,
        resets_at=window.resets_at,
        utilization=window.utilization,
        overage=window.overage,
        seen_at=window.seen_at,
    )


def _held(one: LimitedTask, redact: Callable[[str], str]) -> HeldView:
    shown = {
        "task": one.task.id,
        "title": one.task.title,
        "blocked_by": one.task.agent.blocked_by,
        "because": one.why.facts[0],
        "until": one.until,
        "next": one.why.next,
    }
    return to_view(HeldView, shown, redact)
