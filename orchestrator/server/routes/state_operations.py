"""The state operations on a task, in their own names: its state, where to resume, moves, steps and failures."""

from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field, JsonValue

from orchestrator.pipelines.operation_parser import LINE, PARAGRAPH
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.routes.dependencies import By, TheCaller, TheService

router = APIRouter(prefix="/api/tasks/{name}", tags=["state"], route_class=KeyedRoute)

Document = Annotated[dict[str, JsonValue], Body()]


class ForceBody(BaseModel):
    """Which stage to move a task to, and why."""

    stage: Annotated[str, Field(min_length=1, max_length=LINE)]
    reason: Annotated[str, Field(min_length=1, max_length=PARAGRAPH, pattern=r"\S")]


@router.get("/state/current")
async def current(name: str, service: TheService, caller: TheCaller) -> JsonValue:
    """Show the current state whole, and plan and failures in short."""
    return await service.states.current(name, caller)


@router.get("/resume-point")
async def resume_point(name: str, service: TheService) -> JsonValue:
    """Show where the task's work continues."""
    return await service.states.resume_point(name)


@router.post("/state/transition")
async def transition(document: Document, name: str, service: TheService, by: By) -> JsonValue:
    """Move from one state to another if the guards of that transition allow it."""
    return await service.states.transition(name, document, by)


@router.post("/transition")
async def force(body: ForceBody, name: str, service: TheService, by: By) -> JsonValue:
    """Move the task to a stage whatever its guards miss; who did it, why, and what was waived is recorded."""
    return await service.states.force(name, body.stage, body.reason, by)


@router.post("/state/step")
async def step(document: Document, name: str, service: TheService, caller: TheCaller) -> JsonValue:
    """Record news of a step; only its commits show that it is completed."""
    return await service.states.step(name, document, caller)


@router.post("/state/fail")
async def fail(document: Document, name: str, service: TheService, caller: TheCaller) -> JsonValue:
    """Record a failure."""
    return await service.states.fail(name, document, caller)
