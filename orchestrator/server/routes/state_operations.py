"""The state operations on a task, in their own names: its state, where to resume, moves, steps and failures."""

from fastapi import APIRouter
from pydantic import JsonValue

from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError
from orchestrator.server.access.marks import ADMIN
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import CHANGED, OPERATION, refuses
from orchestrator.server.routes.dependencies import By, TaskName, TheCaller, TheService
from orchestrator.server.schemas.state_operations import FailureDocument, ForceBody, StepDocument, TransitionDocument

router = APIRouter(prefix="/api/tasks/{name}", tags=["state"], route_class=KeyedRoute)


@router.get("/state/current", responses=refuses(errors.OutdatedAttempt, OrchestratorError))
async def current(name: TaskName, service: TheService, caller: TheCaller) -> JsonValue:
    """Show the current state whole, and plan and failures in short."""
    return await service.states.current(name, caller)


@router.get("/resume-point", responses=refuses(OrchestratorError))
async def resume_point(name: TaskName, service: TheService) -> JsonValue:
    """Show where the task's work continues."""
    return await service.states.resume_point(name)


@router.post("/state/transition", responses=refuses(*OPERATION, *CHANGED))
async def transition(document: TransitionDocument, name: TaskName, service: TheService, by: By) -> JsonValue:
    """Move from one state to another if the guards of that transition allow it."""
    return await service.states.transition(name, document, by)


@router.post("/transition", responses=refuses(*OPERATION, *CHANGED), openapi_extra=ADMIN)
async def force(body: ForceBody, name: TaskName, service: TheService, by: By) -> JsonValue:
    """Move the task to a stage whatever its guards miss; who did it, why, and what was waived is recorded."""
    return await service.states.force(name, body.stage, body.reason, by)


@router.post("/state/step", responses=refuses(*OPERATION, *CHANGED))
async def step(document: StepDocument, name: TaskName, service: TheService, caller: TheCaller) -> JsonValue:
    """Record news of a step; only its commits show that it is completed."""
    return await service.states.step(name, document, caller)


@router.post("/state/fail", responses=refuses(*OPERATION, *CHANGED))
async def fail(document: FailureDocument, name: TaskName, service: TheService, caller: TheCaller) -> JsonValue:
    """Record a failure."""
    return await service.states.fail(name, document, caller)
