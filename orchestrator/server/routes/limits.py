"""What limits work: usage windows, the day's budget, and who waits for them."""

from collections.abc import Iterator

from fastapi import APIRouter

from orchestrator.core.schedule import admission
from orchestrator.core.schedule.admission import SchedulerSnapshot
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task
from orchestrator.core.task.usage_limits import ActiveLimit, active_limits
from orchestrator.redaction.display import escape_text
from orchestrator.server.backend import Backend
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.problems import NoSuchWindow
from orchestrator.server.routes.tasks import By, TheBackend
from orchestrator.server.schemas.limits import DayView, HeldView, LimitsView, WallView, WindowView
from orchestrator.server.schemas.task_views import spent_shown
from orchestrator.server.schemas.views import to_view

router = APIRouter(prefix="/api", tags=["daemon"], route_class=KeyedRoute)

_LIMITS = frozenset({PauseReason.RATE_LIMIT, PauseReason.SERVICE, PauseReason.BUDGET})


@router.get("/limits")
async def limits(backend: TheBackend) -> LimitsView:
    """The account's windows, the day's budget, and every task that one of them keeps from going on."""
    return _limits(backend)


@router.delete("/limits")
async def forget(backend: TheBackend, by: By, window: str | None = None) -> LimitsView:
    """Believe no more that a window, or any, is used up: the account was changed, or usage bought. What is left."""
    scene = backend.supervisor.scene()
    if window is not None and window not in scene.windows and not admission.tasks_at_limit(scene, window):
        known = ", ".join(escape_text(name) for name in scene.windows) or "none"
        raise NoSuchWindow(f"nothing was told of a window {escape_text(window)}; known: {known}")
    backend.supervisor.forget_limits(window, by)
    await backend.supervisor.settled()
    return _limits(backend)


def _limits(backend: Backend) -> LimitsView:
    scene = backend.supervisor.scene()
    shown = {
        "windows": [WindowView.model_validate(_window(scene, name)) for name in sorted(scene.windows)],
        "walls": [WallView.model_validate(wall) for wall in _walls(scene)],
        "day": DayView.model_validate(_day(scene)),
        "places": scene.room.places,
        "places_now": admission.places(scene),
        "held": list(_held(backend, scene)),
    }
    return to_view(LimitsView, shown, backend.redact)


def _window(scene: SchedulerSnapshot, name: str) -> dict[str, object]:
    window = scene.windows[name]
    return {
        "name": name,
        "status": window.status,
        "resets_at": window.resets_at,
        "utilization": window.utilization,
        "overage": window.overage,
        "seen_at": window.seen_at,
    }


def _walls(scene: SchedulerSnapshot) -> Iterator[ActiveLimit]:
    """Those that were told, and one that a task met without being told, or that a person has to say is over."""
    yield from active_limits(scene.windows, scene.now, scene.room.limit_margin)
    met = admission.account_limit(scene)
    if met is not None:
        yield ActiveLimit(window=f"met by {met.id}", until=met.retry_at)


def _day(scene: SchedulerSnapshot) -> dict[str, object]:
    return {
        "day": f"{scene.now:%Y-%m-%d}",
        "spent": spent_shown(admission.spent_today(scene)),
        "caps": scene.room.day,
        "used_up": admission.day_used_up(scene),
    }


def _held(backend: Backend, scene: SchedulerSnapshot) -> Iterator[HeldView]:
    for task in scene.tasks:
        if not _is_held(task, scene):
            continue
        why, wall = explain(task, scene), admission.active_limit_before(task, scene)
        yield to_view(
            HeldView,
            {
                "task": task.id,
                "title": task.title,
                "blocked_by": task.agent.blocked_by,
                "because": why.facts[0],
                "until": task.retry_at if task.waits_for_service and task.retry_at else wall and wall.until,
                "next": why.next,
            },
            backend.redact,
        )


def _is_held(task: Task, scene: SchedulerSnapshot) -> bool:
    """Whether a limit, the service or a budget keeps it; one that only waits for a place may be kept as well."""
    if task.is_paused and task.agent.blocked_by in _LIMITS:
        return True
    return task.wants_slot and not admission.blockers(task, scene) and admission.block_reason(task, scene) is not None
