"""The daemon as a whole: how it is, what is declared, and what people ask of all tasks at once."""

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator import __version__
from orchestrator.core.schedule.why import Why
from orchestrator.core.task.task import Task
from orchestrator.daemon.inspection.doctor import DoctorResult
from orchestrator.daemon.inspection.doctor_checks import Level
from orchestrator.daemon.service import Service
from orchestrator.daemon.services.status import DaemonStatus, RunningTask
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import NOT_READY, refuses
from orchestrator.server.problems import HttpProblem, RefusedRequest
from orchestrator.server.rendering import many_view, spent_view, task_lines
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.daemon import (
    DoctorBriefView,
    PipelineList,
    PipelineView,
    RoleList,
    RoleView,
    RunningView,
    SharedBudgetView,
    StatusView,
)
from orchestrator.server.schemas.events import GlanceView, OverviewView
from orchestrator.server.schemas.tasks import CapsView, ManyView

router = APIRouter(tags=["daemon"])
people = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)
"""What a person asks of all tasks at once."""


@router.get("/healthz")
async def healthz() -> Mapping[str, str]:
    """Say that the daemon answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=refuses(*NOT_READY))
async def readyz(service: TheService) -> Mapping[str, str]:
    """Say that the daemon admits tasks; it does not answer before its tasks are loaded.

    It says no while it stops, and while no agent can work: nobody is logged in, or their program does not work.
    """
    if service.status.is_draining():
        detail = "it admits no more tasks; ask again after its restart"
        raise RefusedRequest(HttpProblem(503, "draining", "The daemon is stopping", detail))
    if trouble := service.status.trouble():
        detail = service.redact(trouble.reason)
        raise RefusedRequest(HttpProblem(503, trouble.kind, "No agent can work", detail))
    return {"status": "ready"}


@router.get("/api/status")
async def status(service: TheService) -> StatusView:
    """Show the daemon, its slots, who waits and who runs."""
    now = await service.status.status()
    return await asyncio.to_thread(_status, service, now)


def _status(service: Service, now: DaemonStatus) -> StatusView:
    return compose_view(
        StatusView,
        service.redact,
        *(now, now.capacity, now.settings),
        version=__version__,
        data_dir=str(now.settings.data_dir),
        socket=str(now.settings.socket),
        queue=task_lines(now.queue, service.redact),
        intake=service.intake.troubles(),
        standing=task_lines(now.paused, service.redact),
        unreadable={task.id: task.block_reason or "" for task in now.unreadable},
        running=tuple(_running(one, service.redact) for one in now.running),
        budgets=tuple(
            SharedBudgetView(parent=one.parent, caps=CapsView.model_validate(one.caps), spent=spent_view(one.spent))
            for one in now.budgets
        ),
        doctor=_brief(service.oversight.doctor.newest),
    )


@router.get("/api/overview")
async def overview(service: TheService, limit: Annotated[int, Query(ge=0, le=500)] = 50) -> OverviewView:
    """Show the daemon and its live tasks, as many as a screen has room for."""
    now = await service.status.overview(limit)
    tasks = tuple(glance(task, why, service.redact) for task, why in now.tasks)
    return compose_view(OverviewView, service.redact, now, now.capacity, tasks=tasks)


@router.get("/api/pipelines")
async def pipelines(service: TheService) -> PipelineList:
    """List every pipeline as it is declared now."""
    declared = service.status.definitions().pipelines
    found = (declared[name] for name in sorted(declared))
    views = (compose_view(PipelineView, service.redact, one, stages=tuple(one.stages.values())) for one in found)
    return PipelineList(pipelines=tuple(views))


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


@people.post("/drain", openapi_extra=ADMIN)
async def drain(service: TheService, by: By) -> ManyView:
    """Admit no more tasks and end every agent, keeping its session, until the daemon restarts or all is resumed."""
    return many_view(await service.bulk.drain(by), service.redact)


def _running(one: RunningTask, redact: Redact) -> RunningView:
    task, agent, usage = one.task, one.task.agent, one.usage
    return compose_view(
        RunningView,
        redact,
        *(task, agent),
        task=task.id,
        process=task.run and task.run.process,
        cpu_seconds=usage and usage.cpu_seconds,
        rss_bytes=usage and usage.rss_bytes,
        cgroup=one.cgroup,
        tokens_used=agent.usage.tokens,
        cost_usd=agent.usage.cost_usd,
    )


def glance(task: Task, why: Why, redact: Redact) -> GlanceView:
    """Return a live task as a screen of all tasks shows it."""
    stage, agent = task.stages.get(task.stage), task.agent
    return compose_view(
        GlanceView,
        redact,
        *(task, agent),
        paused=task.is_paused,
        step=agent.turn.step,
        steps=len(task.steps),
        agent=agent.status,
        since=(stage and stage.started_at) or task.timing.created_at,
        tokens_used=agent.usage.tokens,
        cost_usd=agent.usage.cost_usd,
        why=why.next if task.holds_slot else why.facts[0],
    )


def _brief(found: DoctorResult | None) -> DoctorBriefView | None:
    if found is None:
        return None
    bad, warn = (sum(one.level is level for one in found.findings) for level in (Level.BAD, Level.WARN))
    return DoctorBriefView(checked_at=found.checked_at, bad=bad, warn=warn)
