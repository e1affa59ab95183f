"""How the daemon is and what is declared."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Mapping

from fastapi import APIRouter

from orchestrator import __version__, clock
from orchestrator.core.schedule.admission import Capacity, waiting_queue
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.server.backend import Backend
from orchestrator.server.problems import Problem, Refusal
from orchestrator.server.routes.tasks import TheBackend
from orchestrator.server.schemas.daemon import (
    PipelineList,
    PipelineStageView,
    PipelineView,
    RoleList,
    RoleView,
    RunningView,
    StatusView,
)
from orchestrator.server.schemas.task_views import task_line
from orchestrator.server.schemas.views import to_view

router = APIRouter(tags=["daemon"])


@router.get("/healthz")
async def healthz() -> Mapping[str, str]:
    """That the daemon answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(backend: TheBackend) -> Mapping[str, str]:
    """That the daemon takes work: it answers nobody before its tasks are taken up, and says no while it stops."""
    if backend.supervisor.room.draining:
        raise Refusal(Problem(503, "draining", "The daemon is stopping", "it takes no more tasks; ask the next one"))
    return {"status": "ready"}


@router.get("/api/status")
async def status(backend: TheBackend) -> StatusView:
    """The daemon, its places, who waits and who runs."""
    supervisor, settings = backend.supervisor, backend.settings
    room, tasks = supervisor.scene().room, list(supervisor.tasks.values())
    running = await asyncio.to_thread(lambda: [_running(backend, task) for task in tasks if task.run])
    return StatusView(
        health=health_of(room),
        pid=os.getpid(),
        version=__version__,
        started_at=backend.started_at,
        uptime_seconds=(clock.now() - backend.started_at).total_seconds(),
        data_dir=str(settings.data_dir),
        socket=str(settings.socket),
        places=room.places,
        places_taken=sum(task.holds_slot for task in tasks),
        pressure=room.pressure,
        paused_by=room.paused_by,
        free_bytes=shutil.disk_usage(settings.data_dir).free,
        free_space_floor=settings.free_space_floor,
        decisions=supervisor.decisions,
        counts=Counter([*(task.status for task in tasks), *supervisor.ended.values()]),
        queue=tuple(task_line(task, backend.redact) for task in waiting_queue(tasks)),
        standing=tuple(task_line(task, backend.redact) for task in tasks if task.is_paused and not task.wants_slot),
        running=tuple(running),
    )


@router.get("/api/pipelines")
async def pipelines(backend: TheBackend) -> PipelineList:
    """Every pipeline as it is declared now."""
    declared = backend.definitions.pipelines
    return PipelineList(pipelines=tuple(_pipeline(declared[name]) for name in sorted(declared)))


@router.get("/api/roles")
async def roles(backend: TheBackend) -> RoleList:
    """Every role as it is declared now."""
    declared = backend.definitions.roles
    return RoleList(roles=tuple(RoleView.model_validate(declared[name]) for name in sorted(declared)))


def health_of(room: Capacity) -> str:
    """Whether tasks can start: ok, paused, pressure or draining."""
    return "draining" if room.draining else "pressure" if room.pressure else "paused" if room.paused_by else "ok"


def _running(backend: Backend, task: Task) -> RunningView:
    used, agent = backend.usage(task), task.agent
    shown = {
        "task": task.id,
        "title": task.title,
        "stage": task.stage,
        "role": agent.role,
        "attempt": agent.attempt,
        "process": task.run and task.run.process,
        "pid": agent.pid,
        "cpu_seconds": used and used.cpu_seconds,
        "rss_bytes": used and used.rss_bytes,
        "tokens_used": agent.usage.tokens,
        "cost_usd": agent.usage.cost_usd,
    }
    return to_view(RunningView, shown, backend.redact)


def _pipeline(pipeline: Pipeline) -> PipelineView:
    stages = tuple(PipelineStageView.model_validate(stage) for stage in pipeline.stages.values())
    return PipelineView(
        name=pipeline.name,
        description=pipeline.description,
        start=pipeline.start,
        stages=stages,
        budgets=pipeline.budgets,
        source=pipeline.source,
    )
