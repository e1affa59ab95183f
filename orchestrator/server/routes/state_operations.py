"""The state operations of seed 000 on a task, in the seed's own names: where it stands, where to go on, changes."""

import asyncio
from typing import Annotated

import orjson
from fastapi import APIRouter, Body, Depends, FastAPI, Request, Response
from pydantic import BaseModel, Field, JsonValue

from orchestrator import clock
from orchestrator.core.decide import state_moves, state_operations
from orchestrator.core.decide.resume_point import resume_point
from orchestrator.core.events.events import OperationRequested
from orchestrator.core.events.operations import ForcedTransition, Operation, OperationRefused
from orchestrator.core.events.operations import Refusal as Why
from orchestrator.core.task import guards
from orchestrator.core.task.task import Task
from orchestrator.daemon.task_factory import accepted_pipeline
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.pipelines.operation_parser import LINE, PARAGRAPH, failure_of, step_of, transition_of
from orchestrator.server.backend import Backend
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.problems import MEDIA_TYPE, Problem, Refusal
from orchestrator.server.routes.records import masked
from orchestrator.server.routes.tasks import By, TheBackend, TheTask
from orchestrator.storage.state_document import to_document

NOT_YOURS = Problem(
    403,
    "not-for-you",
    "The caller may not do this",
    "the attempt that asks is not the task's present one any more; what it knows of the state may be wrong",
)

router = APIRouter(prefix="/api/tasks/{name}", tags=["state"], route_class=KeyedRoute)

Document = Annotated[dict[str, JsonValue], Body()]


class ForceBody(BaseModel):
    """Where to bring a task, and why."""

    stage: Annotated[str, Field(min_length=1, max_length=LINE)]
    reason: Annotated[str, Field(min_length=1, max_length=PARAGRAPH, pattern=r"\S")]


def of_the_present_attempt(request: Request, task: TheTask) -> Task:
    """The task, if who asks is a person or its present agent."""
    attempt = caller_of(request).attempt
    if attempt is not None and attempt != task.agent.attempt:
        raise Refusal(NOT_YOURS)
    return task


TheirTask = Annotated[Task, Depends(of_the_present_attempt)]


@router.get("/state/current")
async def current(task: TheirTask, backend: TheBackend) -> JsonValue:
    """Where the task stands: its state's record whole, its plan and its failures in short."""
    return masked(
        state_moves.current(accepted_pipeline(backend.store.files, task.id), task, to_document(task)), backend.redact
    )


@router.get("/resume-point")
async def where_to_go_on(task: TheTask, backend: TheBackend) -> JsonValue:
    """Where the task goes on."""
    evidence = await asyncio.to_thread(backend.look, task)
    return masked(
        resume_point(accepted_pipeline(backend.store.files, task.id), task, evidence, clock.now()), backend.redact
    )


@router.post("/state/transition")
async def transition(document: Document, task: TheTask, backend: TheBackend, by: By) -> JsonValue:
    """Go from one state to another, if the guards of that way let it."""
    moved = await _decided(backend, task, transition_of(document), by)
    return {"ok": True, "new_state": state_moves.state_of(moved)}


@router.post("/transition")
async def force(body: ForceBody, task: TheTask, backend: TheBackend, by: By) -> JsonValue:
    """Bring the task to a stage whatever its guards miss; who did it, why, and what was waived is put on record."""
    evidence = await asyncio.to_thread(backend.look, task)
    waived = guards.missing(accepted_pipeline(backend.store.files, task.id).stage(task.stage).guards, task, evidence)
    moved = await _decided(backend, task, ForcedTransition(to_state=body.stage, reason=body.reason, waived=waived), by)
    shown: list[Json] = [*waived]
    return {"ok": True, "new_state": state_moves.state_of(moved), "waived": masked(shown, backend.redact)}


@router.post("/state/step")
async def step(document: Document, task: TheirTask, backend: TheBackend, by: By) -> JsonValue:
    """Take in news of a step; that it is completed is for its commits to say."""
    update = step_of(_clean(document, backend))
    await _decided(backend, task, update, by)
    return {"ok": True, "step_id": update.step_id, "new_status": update.status.value}


@router.post("/state/fail")
async def fail(document: Document, task: TheirTask, backend: TheBackend, by: By) -> JsonValue:
    """Put a failure on record."""
    report = failure_of(_clean(document, backend), state_moves.state_of(task), clock.now())
    after = await _decided(backend, task, report, by)
    return {"ok": True, "failure_id": after.failures.entries[-1].id}


def answer_with_documents(app: FastAPI) -> None:
    """Make every refused operation a problem document that has the seed's own members too."""
    app.add_exception_handler(OperationRefused, _refused)


async def _decided(backend: Backend, task: Task, operation: Operation, by: str) -> Task:
    """The task after the operation. Raises OperationRefused, InvalidTransition and NotCommitted."""
    state_operations.require_begun(accepted_pipeline(task.folder), task, operation)
    evidence = await asyncio.to_thread(backend.look, task)
    event = OperationRequested(at=clock.now(), operation=operation, evidence=evidence, by=by)
    return await backend.supervisor.request(task.id, event)


def _clean(document: dict[str, JsonValue], backend: Backend) -> JsonObject:
    """What an agent reports, without the secrets that may have come into it: it is kept in files of the daemon's."""
    return {name: masked(value, backend.redact) for name, value in document.items()}


async def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, OperationRefused):
        raise error
    status = 400 if error.document["error"] == Why.MALFORMED.value else 409
    about: JsonObject = {
        "type": "urn:orchestrator:problem:operation-refused",
        "title": "The operation was refused",
        "status": status,
        "detail": str(error),
    }
    return Response(orjson.dumps({**about, **error.document}), status_code=status, media_type=MEDIA_TYPE)
