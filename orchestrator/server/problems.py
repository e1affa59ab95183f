"""Refusals as problem documents (RFC 9457), and which error becomes which problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from orchestrator.core.events.operations import OperationRefused, Refusal
from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
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
    (KeyTaken, 409, "key-taken", "The Idempotency-Key was used before"),
    (errors.AlreadyActive, 409, "at-work-already", "The ticket already has a live task"),
    (errors.NotFound, 404, "no-such-ticket", "There is no such ticket"),
    (errors.AuthenticationFailed, 502, "login-refused", "The tracker does not accept the login"),
    (errors.AccessDenied, 502, "login-refused", "The tracker does not let this login see the ticket"),
    (errors.Refused, 502, "unfit-answer", "The tracker sent an answer that cannot be understood"),
    (errors.Unreachable, 503, "tracker-unreachable", "The tracker did not answer in time"),
    (errors.NotCommitted, 507, "not-committed", "The request could not be written to disk"),
    (errors.UnreadableTask, 409, "unreadable", "The task's files cannot be read"),
    (errors.NoStateLeft, 409, "no-state-left", "No state of the task is intact"),
    (errors.NothingLost, 409, "nothing-lost", "The task can be read as it is"),
    (errors.StoreError, 500, "unreadable", "A file of the task cannot be read"),
)
"""Errors that say nothing beyond their message: status, kind and title; any other is a 422."""


def answer(problem: HttpProblem) -> Response:
    """Return the response for a problem."""
    view = compose_view(ProblemView, str, problem, type=f"{TYPES}{problem.kind}")
    body = view.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE)


def problem_of(error: OrchestratorError, redact: Redact) -> HttpProblem:
    """Return the problem that an error becomes."""
    detail = str(error)
    match error:
        case errors.AmbiguousName():
            return HttpProblem(409, "ambiguous", "Several tasks fit", detail, candidates=error.candidates)
        case errors.InvalidTransition():
            title = "The task's state does not allow this"
            return HttpProblem(409, "not-allowed", title, detail, error.status, error.allowed)
        case errors.AlreadyAnswered():
            request = request_view(error.task, error.request, redact)
            return HttpProblem(409, "answered-before", "It was answered before", detail, request=request)
        case _:
            found = (row for row in KINDS if isinstance(error, row[0]))
            _, status, kind, title = next(found, (None, 422, "refused", "The request was refused"))
            return HttpProblem(status, kind, title, detail)


def answer_with_problems(app: FastAPI, redact: Redact) -> None:
    """Make every error of the app a problem document."""

    async def refused(_: Request, error: Exception) -> Response:
        return answer(problem_of(_as(OrchestratorError, error), redact))

    app.add_exception_handler(OrchestratorError, refused)
    app.add_exception_handler(OperationRefused, _operation_refused)
    app.add_exception_handler(OSError, _unwritable)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
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


async def _unwritable(request: Request, error: Exception) -> Response:
    refused = _as(OSError, error)
    detail = f"{refused.strerror or refused}: {refused.filename or 'no file is named'}; fix that, then try again"
    if request.method == "GET":
        return answer(HttpProblem(500, "unreadable", "A file of the task cannot be read", detail))
    return answer(HttpProblem(507, "not-committed", "The request could not be written to disk", detail))


async def _malformed(request: Request, error: Exception) -> Response:
    problems = _as(RequestValidationError, error).errors()
    if any(found["loc"] == ("body",) and isinstance(found["input"], bytes) for found in problems):
        kind = request.headers.get("content-type") or "nothing"
        detail = f"the body has the type {kind!r:.80}; send JSON, as Content-Type: application/json"
        return answer(HttpProblem(415, "unsupported-media-type", "The body is not JSON", detail))
    detail = "; ".join(map(_location_and_reason, problems))
    return answer(HttpProblem(400, "malformed", "The request is malformed", detail))


def _location_and_reason(found: Mapping[str, Any]) -> str:
    """Return where something is wrong in a request, and what."""
    place, *inner = found["loc"]
    if found["type"] == "json_invalid":
        return f"the body is not JSON: {found['ctx']['error']}, at character {inner[0] + 1}"
    return f"{'.'.join(map(str, inner)) or place}: {found['msg'].removeprefix('Value error, ')}"


async def _http(_: Request, error: Exception) -> Response:
    refused = _as(HTTPException, error)
    if isinstance(refused, RefusedRequest):
        return answer(refused.problem)
    kind = HTTPStatus(refused.status_code).phrase
    return answer(HttpProblem(refused.status_code, kind.lower().replace(" ", "-"), kind, str(refused.detail)))


async def _bug(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    detail = "there is a bug in the daemon; its log has the details"
    return answer(HttpProblem(500, "mistake", "The daemon made a mistake", detail))


def _as(kind: type[E], error: Exception) -> E:
    """Return the error, narrowed to what its handler is registered for."""
    if not isinstance(error, kind):
        raise error
    return error
