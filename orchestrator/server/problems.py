"""Refusals as problem documents (RFC 9457), and which error becomes which problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from orchestrator.core.events.operations import OperationRefused, Refusal
from orchestrator.daemon.access import credentials
from orchestrator.daemon.history.aside import TooManyPages
from orchestrator.daemon.notifications import service as notifications
from orchestrator.daemon.schedules.errors import NoSuchSchedule, ScheduleBusy, ScheduleExists
from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError, WorkWouldBeLost
from orchestrator.formats.codec import JsonObject
from orchestrator.server.access.headers import HEADERS
from orchestrator.server.rendering import request_view
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.tasks import ProblemView
from orchestrator.server.schemas.user_requests import RequestView

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
TYPES = "urn:orchestrator:problem:"

E = TypeVar("E", bound=Exception)


class KeyTaken(OrchestratorError):
    """An Idempotency-Key was used before, for another request or with an unknown outcome."""


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """Why a request is refused; `kind` is the last part of the document's type."""

    status: int
    kind: str
    title: str
    detail: str
    task_status: str | None = None
    allowed: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    request: RequestView | None = None
    methods: tuple[str, ...] | None = None
    """Those that are possible, for the header Allow."""


class RefusedRequest(HTTPException):
    """Ends a request while its body is still being read, where the framework passes on HTTPException alone."""

    def __init__(self, problem: HttpProblem) -> None:
        super().__init__(problem.status, problem.detail)
        self.problem = problem


KINDS: Sequence[tuple[type[OrchestratorError], int, str, str]] = (
    (errors.NoSuchTask, 404, "no-such-task", "There is no such task"),
    (errors.NoSuchWindow, 404, "no-such-window", "There is no such usage window"),
    (errors.NoSuchFile, 404, "no-such-file", "There is no such file"),
    (errors.NoSuchCheckpoint, 404, "no-such-checkpoint", "There is no such checkpoint"),
    (errors.NoSuchRequest, 404, "no-such-request", "There is no such question, review or dependency"),
    (errors.OutdatedAttempt, 403, "not-for-you", "The caller may not do this"),
    (errors.BadAnswer, 422, "bad-answer", "The answer does not fit"),
    (errors.AnswerRefused, 409, "not-seen", "The answer is to something else"),
    (credentials.NoSuchToken, 404, "no-such-token", "There is no such token"),
    (credentials.NameTaken, 409, "name-taken", "There is a token of that name"),
    (credentials.TooManyTokens, 409, "too-many-tokens", "There are too many tokens"),
    (credentials.NotListening, 409, "not-listening", "The daemon does not listen for browsers"),
    (notifications.NoSuchChannel, 404, "no-such-channel", "There is no such channel"),
    (notifications.NoChannel, 409, "no-channel", "There is no channel"),
    (NoSuchSchedule, 404, "no-such-schedule", "There is no such schedule"),
    (ScheduleExists, 409, "schedule-exists", "There is a schedule of that name"),
    (ScheduleBusy, 409, "schedule-busy", "The last task of the schedule has not ended"),
    (KeyTaken, 409, "key-taken", "The Idempotency-Key was used before"),
    (errors.AlreadyActive, 409, "at-work-already", "The ticket already has a live task"),
    (errors.NotFound, 404, "no-such-ticket", "There is no such ticket"),
    (errors.AuthenticationFailed, 502, "login-refused", "The tracker does not accept the login"),
    (errors.AccessDenied, 502, "login-refused", "The tracker does not let this login see the ticket"),
    (errors.Refused, 502, "unfit-answer", "The tracker sent an answer that cannot be understood"),
    (TooManyPages, 503, "busy", "Too many pages are being made"),
    (errors.Unreachable, 503, "tracker-unreachable", "The tracker did not answer in time"),
    (errors.NotCommitted, 507, "not-committed", "The request could not be written to disk"),
    (errors.UnreadableTask, 409, "unreadable", "The task's files cannot be read"),
    (errors.NoStateLeft, 409, "no-state-left", "No state of the task is intact"),
    (errors.NothingLost, 409, "nothing-lost", "The task can be read as it is"),
    (errors.StoreError, 500, "unreadable", "A file of the task cannot be read"),
    (errors.AmbiguousName, 409, "ambiguous", "Several tasks fit"),
    (errors.InvalidTransition, 409, "not-allowed", "The task's state does not allow this"),
    (WorkWouldBeLost, 409, "work-would-be-lost", "Work of the task exists nowhere else"),
    (errors.AlreadyAnswered, 409, "answered-before", "It was answered before"),
    (OrchestratorError, 422, "refused", "The request was refused"),
)
"""What becomes of errors, the first row that fits: status, kind and title."""


def problem_view(problem: HttpProblem) -> ProblemView:
    """Return a problem as its document."""
    return compose_view(ProblemView, str, problem, type=f"{TYPES}{problem.kind}")


def answer(problem: HttpProblem) -> Response:
    """Return the response for a problem."""
    view = problem_view(problem)
    body = view.model_dump_json(by_alias=True, exclude={name for name, value in view if value is None})
    headers = {"Allow": ", ".join(problem.methods)} if problem.methods is not None else None
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


def problem_of(error: OrchestratorError, redact: Redact) -> HttpProblem:
    """Return the problem that an error becomes."""
    status, kind, title = next(row[1:] for row in KINDS if isinstance(error, row[0]))
    problem = HttpProblem(status, kind, title, str(error))
    match error:
        case errors.AmbiguousName():
            return replace(problem, candidates=error.candidates)
        case errors.InvalidTransition():
            return replace(problem, task_status=error.status, allowed=error.allowed)
        case errors.AlreadyAnswered():
            return replace(problem, request=request_view(error.task, error.request, redact))
        case _:
            return problem


def answer_with_problems(app: FastAPI) -> None:
    """Make every error of the app a problem document."""
    for kind in (OrchestratorError, OSError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.add_exception_handler(OperationRefused, _operation_refused)
    app.add_exception_handler(Exception, _bug)


async def _operation_refused(_: Request, error: Exception) -> Response:
    """Return a problem document with the members that the state operations define."""
    refused = _as(OperationRefused, error)
    status = 400 if refused.document["error"] == Refusal.MALFORMED.value else 409
    about: JsonObject = {
        "type": f"{TYPES}operation-refused",
        "title": "The operation was refused",
        "status": status,
        "detail": str(refused),
    }
    return Response(orjson.dumps({**about, **refused.document}), status_code=status, media_type=MEDIA_TYPE)


def problem_for(request: Request, error: Exception) -> HttpProblem:
    """Return the problem that an error of a request becomes; raises the error itself if it is none of those."""
    match error:
        case OrchestratorError():
            return problem_of(error, request.app.state.service.redact)
        case OSError():
            return _unwritable(request, error)
        case RequestValidationError():
            return _malformed(request, error)
        case RefusedRequest():
            return error.problem
        case HTTPException():
            return _of_the_framework(request, error)
        case _:
            raise error


async def _refused(request: Request, error: Exception) -> Response:
    return answer(problem_for(request, error))


def _of_the_framework(request: Request, error: HTTPException) -> HttpProblem:
    title = HTTPStatus(error.status_code).phrase
    kind, detail = title.lower().replace(" ", "-"), str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"there is nothing at {request.url.path!r:.200}; /openapi.json lists what there is"
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return HttpProblem(400, "malformed", "The request is malformed", "the body is not JSON in UTF-8")
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return HttpProblem(error.status_code, kind, title, detail)
    methods = _methods(request, error)
    detail = f"{request.method:.20} is not possible here, but {', '.join(methods)}"
    return HttpProblem(error.status_code, kind, title, detail, methods=methods)


def _methods(request: Request, error: HTTPException) -> tuple[str, ...]:
    """Return the methods that are possible at the address of a request; the framework knows those of one route."""
    route = request.scope.get("route")
    known = request.app.methods.get(route.path_format, ()) if isinstance(route, APIRoute) else ()
    return tuple(known) or tuple((error.headers or {}).get("Allow", "").split(", "))


def _unwritable(request: Request, refused: OSError) -> HttpProblem:
    detail = f"{refused.strerror or refused}: {refused.filename or 'no file is named'}; fix that, then try again"
    if request.method == "GET":
        return HttpProblem(500, "unreadable", "A file of the task cannot be read", detail)
    return HttpProblem(507, "not-committed", "The request could not be written to disk", detail)


def _malformed(request: Request, error: RequestValidationError) -> HttpProblem:
    problems = error.errors()
    if any(found["loc"] == ("body",) and isinstance(found["input"], bytes) for found in problems):
        kind = request.headers.get("content-type") or "nothing"
        detail = f"the body has the type {kind!r:.80}; send JSON, as Content-Type: application/json"
        return HttpProblem(415, "unsupported-media-type", "The body is not JSON", detail)
    detail = "; ".join(map(_location_and_reason, problems))
    return HttpProblem(400, "malformed", "The request is malformed", detail)


def _location_and_reason(found: Mapping[str, Any]) -> str:
    """Return where something is wrong in a request, and what."""
    place, *inner = found["loc"]
    if found["type"] == "json_invalid":
        return f"the body is not JSON: {found['ctx']['error']}, at character {inner[0] + 1}"
    return f"{'.'.join(map(str, inner)) or place}: {found['msg'].removeprefix('Value error, ')}"


async def _bug(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    detail = "there is a bug in the daemon; its log has the details"
    refusal = answer(HttpProblem(500, "mistake", "The daemon made a mistake", detail))
    refusal.headers.update(HEADERS)  # it is made outside of what adds them to other answers
    return refusal


def _as(kind: type[E], error: Exception) -> E:
    """Return the error, narrowed to what its handler is registered for."""
    if not isinstance(error, kind):
        raise error
    return error
