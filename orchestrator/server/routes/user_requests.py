"""What people are asked for, and their answers: questions, dependencies and reviews of all tasks."""

from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.core.task.user_requests import RequestKind
from orchestrator.daemon.service import Service
from orchestrator.daemon.services import errors
from orchestrator.daemon.services.user_requests import TaskRequest
from orchestrator.server.idempotency import SECRET, KeyedRoute
from orchestrator.server.openapi.refusals import ANSWERED, NAMED, refuses
from orchestrator.server.rendering import extended_request_view, request_view
from orchestrator.server.routes.dependencies import By, RequestName, TheService
from orchestrator.server.schemas.base import Redact
from orchestrator.server.schemas.user_requests import (
    AnswerBody,
    ChangesBody,
    DigestBody,
    ProvideBody,
    ProvidedView,
    RejectBody,
    RequestFilter,
    RequestList,
    RequestView,
    ReviewView,
)

router = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)

Wanted = Annotated[RequestFilter, Query()]


@router.get("/questions", responses=refuses(*NAMED))
async def questions(service: TheService, wanted: Wanted) -> RequestList:
    """List questions that agents ask, permissions among them."""
    return await _listed(service, RequestKind.QUESTION, wanted)


@router.get("/dependencies", responses=refuses(*NAMED))
async def dependencies(service: TheService, wanted: Wanted) -> RequestList:
    """List what agents need and only a person can provide."""
    return await _listed(service, RequestKind.DEPENDENCY, wanted)


@router.get("/reviews", responses=refuses(*NAMED))
async def reviews(service: TheService, wanted: Wanted) -> RequestList:
    """List stages and plans that are to be approved."""
    return await _listed(service, RequestKind.REVIEW, wanted)


@router.get("/questions/{name}", responses=refuses(errors.NoSuchRequest))
async def question(name: RequestName, service: TheService) -> RequestView:
    """Show one question."""
    return _view(await service.requests.find(RequestKind.QUESTION, name), service.redact)


@router.get("/dependencies/{name}", responses=refuses(errors.NoSuchRequest))
async def dependency(name: RequestName, service: TheService) -> RequestView:
    """Show one dependency."""
    return _view(await service.requests.find(RequestKind.DEPENDENCY, name), service.redact)


@router.get("/reviews/{name}", responses=refuses(errors.NoSuchRequest))
async def review(name: RequestName, service: TheService) -> ReviewView:
    """Show one review, and what is to be looked at."""
    found, change = await service.requests.find_review(name)
    task, stage = found.task, found.task.stages.get(found.request.stage)
    files = tuple(task.display_path(file) for file in (stage.artifacts if stage else ()))
    return extended_request_view(ReviewView, task, found.request, service.redact, files=files, change=change)


@router.post("/questions/{name}/answer", responses=refuses(*ANSWERED))
async def answer(name: RequestName, service: TheService, by: By, body: AnswerBody) -> RequestView:
    """Answer a question; an option may be written in any case."""
    return _view(await service.requests.answer(name, body.answer, body.digest, by), service.redact)


@router.post("/questions/{name}/skip", responses=refuses(*ANSWERED))
async def skip(name: RequestName, service: TheService, by: By, body: DigestBody | None = None) -> RequestView:
    """Leave a question that is not required to its default, or to the agent."""
    return _view(await service.requests.skip(name, body.digest if body else None, by), service.redact)


@router.post("/reviews/{name}/approve", responses=refuses(*ANSWERED))
async def approve(name: RequestName, service: TheService, by: By, body: DigestBody | None = None) -> RequestView:
    """Approve a review, so that the task continues."""
    return _view(await service.requests.approve(name, body.digest if body else None, by), service.redact)


@router.post("/reviews/{name}/request-changes", responses=refuses(*ANSWERED))
async def request_changes(name: RequestName, service: TheService, by: By, body: ChangesBody) -> RequestView:
    """Say what has to be different before the task continues."""
    return _view(await service.requests.request_changes(name, body.text, body.digest, by), service.redact)


@router.post("/dependencies/{name}/provide", responses=refuses(*ANSWERED), openapi_extra=SECRET)
async def provide(name: RequestName, service: TheService, by: By, body: ProvideBody | None = None) -> ProvidedView:
    """Provide what is missing. A value is stored encrypted before the task learns of it, and is shown nowhere.

    For a blocked task it may be provided again, because it may have been lost; `retry` continues with it.
    """
    value = body.value.get_secret_value() if body and body.value is not None else None
    found, unmasked = await service.requests.provide(name, value, by)
    return extended_request_view(ProvidedView, found.task, found.request, service.redact, unmasked=unmasked)


@router.post("/dependencies/{name}/reject", responses=refuses(*ANSWERED))
async def reject(name: RequestName, service: TheService, by: By, body: RejectBody | None = None) -> RequestView:
    """Say that it will not be provided; the agent has to do without it."""
    return _view(await service.requests.reject(name, body.reason if body else "", by), service.redact)


async def _listed(service: Service, kind: RequestKind, wanted: RequestFilter) -> RequestList:
    found = await service.requests.list(kind, wanted.task, answered=wanted.status == "all")
    return RequestList(requests=tuple(_view(one, service.redact) for one in found))


def _view(found: TaskRequest, redact: Redact) -> RequestView:
    return request_view(found.task, found.request, redact)
