"""What limits work: usage windows, the day's budget, and who waits for them."""

from collections.abc import Iterator

from fastapi import APIRouter

from orchestrator.api.backend import Backend
from orchestrator.api.limit_views import DayView, HeldView, LimitsView, WallView, WindowView
from orchestrator.api.problems import NoSuchWindow
from orchestrator.api.task_views import spent_shown
from orchestrator.api.tasks import By, TheBackend
from orchestrator.api.views import seen
from orchestrator.api.writes import KeyedRoute
from orchestrator.core import admission
from orchestrator.core.admission import Scene
from orchestrator.core.escape import shown
from orchestrator.core.limits import Wall, walls
from orchestrator.core.model import BlockedBy, Task
from orchestrator.core.why import explain

router = APIRouter(prefix="/api", tags=["daemon"], route_class=KeyedRoute)

_LIMITS = frozenset({BlockedBy.RATE_LIMIT, BlockedBy.SERVICE, BlockedBy.BUDGET})


@router.get("/limits")
async def limits(backend: TheBackend) -> LimitsView:
    """The account's windows, the day's budget, and every task that one of them keeps from going on."""
    return _limits(backend)


@router.delete("/limits")
async def forget(backend: TheBackend, by: By, window: str | None = None) -> LimitsView:
    """Believe no more that a window, or any, is used up: the account was changed, or usage bought. What is left."""
    scene = backend.supervisor.scene()
    if window is not None and window not in scene.windows and not admission.met_limit(scene, window):
        known = ", ".join(shown(name) for name in scene.windows) or "none"
        raise NoSuchWindow(f"nothing was told of a window {shown(window)}; known: {known}")
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
    return seen(LimitsView, shown, backend.redact)


def _window(scene: Scene, name: str) -> dict[str, object]:
    window = scene.windows[name]
    return {
        "name": name,
        "status": window.status,
        "resets_at": window.resets_at,
        "utilization": window.utilization,
        "overage": window.overage,
        "seen_at": window.seen_at,
    }


def _walls(scene: Scene) -> Iterator[Wall]:
    """Those that were told, and one that a task met without being told, or that a person has to say is over."""
    yield from walls(scene.windows, scene.now, scene.room.limit_margin)
    met = admission.account_limit(scene)
    if met is not None:
        yield Wall(window=f"met by {met.id}", until=met.retry_at)


def _day(scene: Scene) -> dict[str, object]:
    return {
        "day": f"{scene.now:%Y-%m-%d}",
        "spent": spent_shown(admission.spent_today(scene)),
        "caps": scene.room.day,
        "used_up": admission.day_used_up(scene),
    }


def _held(backend: Backend, scene: Scene) -> Iterator[HeldView]:
    for task in scene.tasks:
        if not _is_held(task, scene):
            continue
        why, wall = explain(task, scene), admission.wall_before(task, scene)
        yield seen(
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


def _is_held(task: Task, scene: Scene) -> bool:
    """Whether a limit, the service or a budget keeps it; one that only waits for a place may be kept as well."""
    if task.paused and task.agent.blocked_by in _LIMITS:
        return True
    return task.wants_slot and not admission.hindrances(task, scene) and admission.withheld(task, scene) is not None
