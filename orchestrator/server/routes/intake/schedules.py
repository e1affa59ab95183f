"""Schedules: recurring tasks."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Response, status
from fastapi import Path as InPath

from orchestrator.daemon.schedules.errors import NoSuchSchedule, ScheduleBusy, ScheduleExists
from orchestrator.daemon.schedules.records import MOST_RUNS, ScheduledWork, TaskSchedule
from orchestrator.daemon.schedules.service import NewSchedule
from orchestrator.daemon.service import Service
from orchestrator.daemon.services.errors import NotCommitted
from orchestrator.errors import OrchestratorError
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import TRACKER, refuses
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.intake.schedules import (
    SCHEDULE_NAME,
    ScheduleBody,
    ScheduleChangeBody,
    ScheduleList,
    ScheduleView,
)

router = APIRouter(prefix="/api/schedules", tags=["schedules"], route_class=KeyedRoute)

ScheduleName = Annotated[str, InPath(pattern=SCHEDULE_NAME, description="The name of a schedule.")]
CHANGED = (NoSuchSchedule, NotCommitted)
RUNS_LISTED = 5
"""How many runs of each schedule a list of all shows."""


@router.get("")
async def schedules(service: TheService) -> ScheduleList:
    """List every schedule with its next time, and its newest 5 runs; one schedule is shown with up to 100."""
    found = await service.schedules.listed()
    views = await asyncio.to_thread(lambda: tuple(schedule_view(service, one, RUNS_LISTED) for one in found))
    return ScheduleList(schedules=views)


@router.post("", status_code=status.HTTP_201_CREATED, responses=refuses(*TRACKER, ScheduleExists, NotCommitted))
async def add(body: ScheduleBody, response: Response, service: TheService, by: By) -> ScheduleView:
    """Submit a task again and again. It is refused now if such a submission would be."""
    made = await service.schedules.add(wanted_schedule(body), by)
    response.headers["Location"] = f"/api/schedules/{made.id}"
    return schedule_view(service, made)


@router.get("/{schedule}", responses=refuses(NoSuchSchedule))
async def schedule(schedule: ScheduleName, service: TheService) -> ScheduleView:
    """Show one schedule."""
    return schedule_view(service, await service.schedules.find(schedule))


@router.put("/{schedule}", responses=refuses(*CHANGED, *TRACKER))
async def change(body: ScheduleBody, schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Replace what the schedule submits and when; its name and its tasks stay. Refused as a new one would be."""
    wanted = {name: value for name, value in dict(body).items() if name != "name"} | {"repo": str(body.repo)}
    return schedule_view(service, await service.schedules.change(schedule, wanted, by))


@router.patch("/{schedule}", responses=refuses(*CHANGED, *TRACKER))
async def edit(body: ScheduleChangeBody, schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Change some of what the schedule submits and when; what is not given stays. Refused as a new one would be."""
    return schedule_view(service, await service.schedules.change(schedule, body.changes, by))


@router.post("/{schedule}/pause", responses=refuses(*CHANGED))
async def pause(schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Submit no more tasks of the schedule until it is resumed."""
    return schedule_view(service, await service.schedules.pause(schedule, by))


@router.post("/{schedule}/resume", responses=refuses(*CHANGED))
async def resume(schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Submit tasks of the schedule again; what was due while it was paused is not made up for."""
    return schedule_view(service, await service.schedules.resume(schedule, by))


@router.post("/{schedule}/run", responses=refuses(*CHANGED, *TRACKER, ScheduleBusy, OrchestratorError))
async def run(schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Submit a task of the schedule now, as well as at its times."""
    return schedule_view(service, await service.schedules.run_now(schedule, by))


@router.delete("/{schedule}", responses=refuses(*CHANGED))
async def remove(schedule: ScheduleName, service: TheService, by: By) -> ScheduleView:
    """Remove the schedule and show what it was; the tasks that it submitted stay."""
    return schedule_view(service, await service.schedules.remove(schedule, by))


def wanted_schedule(body: ScheduleBody) -> NewSchedule:
    """Return what a body asks for."""
    given = dict(body)
    when = {name: given.pop(name) for name in ("name", "line", "zone", "overlap", "missed")}
    return NewSchedule(**when, work=ScheduledWork(**{**given, "repo": str(body.repo)}))


def schedule_view(service: Service, one: TaskSchedule, most: int = MOST_RUNS) -> ScheduleView:
    """Return a schedule with its next time and its newest runs, the newest first."""
    return compose_view(
        ScheduleView,
        service.redact,
        one,
        one.work,
        name=one.id,
        runs=one.runs[::-1][:most],
        next_at=service.schedules.next_time(one),
    )
