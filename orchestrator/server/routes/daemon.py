"""The daemon as a whole: how it is, what is declared, and what people ask of all tasks at once."""

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator import __version__
from orchestrator.core.schedule.why import Why
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.status import RunningTask
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.problems import HttpProblem, RefusedRequest
from orchestrator.server.rendering import many_view, task_lines
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.daemon import (
    PipelineList,
    PipelineStageView,
    PipelineView,
    RoleList,
    RoleView,
    RunningView,
    StatusView,
)
from orchestrator.server.schemas.events import GlanceView, OverviewView
from orchestrator.server.schemas.tasks import ManyView

router = APIRouter(tags=["daemon"])
people = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)
"""What a person asks of all tasks at once."""


@router.get("/healthz")
async def healthz() -> Mapping[str, str]:
    """Say that the daemon answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(service: TheService) -> Mapping[str, str]:
    """Say that the daemon admits tasks; it does not answer before its tasks are loaded, and says no while it stops."""
    if service.status.is_draining():
        detail = "it admits no more tasks; ask again after its restart"
        raise RefusedRequest(HttpProblem(503, "draining", "The daemon is stopping", detail))
    return {"status": "ready"}


@router.get("/api/status")
async def status(service: TheService) -> StatusView:
    """Show the daemon, its places, who waits and who runs."""
    now = await service.status.status()
    return StatusView(
        health=now.health,
        pid=now.pid,
        version=__version__,
        started_at=now.started_at,
        uptime_seconds=now.uptime,
        data_dir=str(now.settings.data_dir),
        socket=str(now.settings.socket),
        places=now.capacity.places,
        places_taken=now.places_taken,
        pressure=now.capacity.pressure,
        paused_by=now.capacity.paused_by,
        free_bytes=now.free_bytes,
        free_space_floor=now.settings.free_space_floor,
        decisions=now.decisions,
        counts=now.counts,
        queue=task_lines(now.queue, service.redact),
        standing=task_lines(now.paused, service.redact),
        running=tuple(_running(one, service.redact) for one in now.running),
    )


@router.get("/api/overview")
async def overview(service: TheService, limit: Annotated[int, Query(ge=0, le=500)] = 50) -> OverviewView:
    """Show the daemon and its live tasks, as many as a screen has room for."""
    now = await service.status.overview(limit)
    return OverviewView(
        health=now.health,
        pressure=now.capacity.pressure,
        started_at=now.started_at,
        places=now.capacity.places,
        places_taken=now.places_taken,
        waiting=now.waiting,
        limited_until=now.limited_until,
        counts=now.counts,
        tasks=tuple(_glance(task, why, service.redact) for task, why in now.tasks),
        more=now.more,
    )


@router.get("/api/pipelines")
async def pipelines(service: TheService) -> PipelineList:
    """List every pipeline as it is declared now."""
    declared = service.status.definitions().pipelines
    return PipelineList(pipelines=tuple(_pipeline(declared[name]) for name in sorted(declared)))


@router.get("/api/roles")
async def roles(service: TheService) -> RoleList:
    """List every role as it is declared now."""
    declared = service.status.definitions().roles
    return RoleList(roles=tuple(RoleView.model_validate(declared[name]) for name in sorted(declared)))


@people.post("/pause")
async def pause_all(service: TheService, by: By) -> ManyView:
    """Pause every task, and every task submitted later, until all is resumed."""
    return many_view(await service.bulk.pause_all(by), service.redact)


@people.post("/resume")
async def resume_all(service: TheService, by: By) -> ManyView:
    """Resume every task that waits for a person's word, and admit tasks again after a drain or a refusal."""
    return many_view(await service.bulk.resume_all(by), service.redact)


@people.post("/drain")
async def drain(service: TheService) -> ManyView:
    """Admit no more tasks and end every agent, keeping its session, until the daemon restarts or all is resumed."""
    return many_view(await service.bulk.drain(), service.redact)


def _running(one: RunningTask, redact: Callable[[str], str]) -> RunningView:
    task, usage, agent = one.task, one.usage, one.task.agent
    shown = {
        "task": task.id,
        "title": task.title,
        "stage": task.stage,
        "role": agent.role,
        "attempt": agent.attempt,
        "process": task.run and task.run.process,
        "pid": agent.pid,
        "cpu_seconds": usage and usage.cpu_seconds,
        "rss_bytes": usage and usage.rss_bytes,
        "tokens_used": agent.usage.tokens,
        "cost_usd": agent.usage.cost_usd,
    }
    return to_view(RunningView, shown, redact)


def _glance(task: Task, why: Why, redact: Callable[[str], str]) -> GlanceView:
    stage, agent = task.stages.get(task.stage), task.agent
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
    return to_view(GlanceView, shown, redact)


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
