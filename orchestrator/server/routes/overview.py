"""Everything at a glance, for a screen that is drawn anew each second."""

import asyncio
from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.core.schedule.admission import SchedulerSnapshot, account_limit, waiting_queue
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.task import Task
from orchestrator.server.backend import Backend
from orchestrator.server.routes.status import health_of
from orchestrator.server.routes.tasks import TheBackend
from orchestrator.server.schemas.streams import GlanceView, OverviewView
from orchestrator.server.schemas.views import to_view

router = APIRouter(prefix="/api", tags=["daemon"])


@router.get("/overview")
async def overview(backend: TheBackend, limit: Annotated[int, Query(ge=0, le=500)] = 50) -> OverviewView:
    """The daemon and the tasks that have not ended, as many as a screen has room for."""
    supervisor = backend.supervisor
    scene = supervisor.scene()
    waiting, limited, tasks = waiting_queue(scene.tasks), account_limit(scene), _in_order(scene)
    seen_now = await asyncio.to_thread(lambda: tuple(_glance(backend, task, scene) for task in tasks[:limit]))
    return OverviewView(
        health=health_of(scene.room),
        pressure=scene.room.pressure,
        started_at=backend.started_at,
        places=scene.room.places,
        places_taken=sum(task.holds_slot for task in tasks),
        waiting=len(waiting),
        limited_until=limited.retry_at if limited else None,
        counts=Counter([*(task.status for task in tasks), *supervisor.ended.values()]),
        tasks=seen_now,
        more=max(0, len(tasks) - limit),
    )


def _in_order(scene: SchedulerSnapshot) -> list[Task]:
    """Those at work, those that stand still, those that wait for a place in the order in which they get one."""
    waiting = waiting_queue(scene.tasks)
    others = sorted(
        (task for task in scene.tasks if not task.wants_slot),
        key=lambda task: (not task.holds_slot, task.timing.created_at, task.id),
    )
    return [*others, *waiting]


def _glance(backend: Backend, task: Task, scene: SchedulerSnapshot) -> GlanceView:
    stage, agent, why = task.stages.get(task.stage), task.agent, explain(task, scene)
    shown = {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "paused": task.is_paused,
        "stage": task.stage,
        "progress": task.progress,
        "step": agent.turn.step,
        "steps": len(task.steps),
        "role": agent.role,
        "agent": agent.status,
        "blocked_by": agent.blocked_by,
        "since": (stage and stage.started_at) or task.timing.created_at,
        "tokens_used": agent.usage.tokens,
        "cost_usd": agent.usage.cost_usd,
        "why": why.next if task.holds_slot else why.facts[0],
    }
    return to_view(GlanceView, shown, backend.redact)
