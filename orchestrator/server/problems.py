"""Refusals as problem documents (RFC 9457), and which of our errors is which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import BadAnswer
from orchestrator.daemon.task_factory import AlreadyActive
from orchestrator.errors import AnswerRefused, InvalidTransition, NoSuchTask, NotCommitted, OrchestratorError
from orchestrator.integrations.tickets.http import AuthenticationFailed, NoSuchTicket, TrackerUnreachable, UnfitAnswer
from orchestrator.server.schemas.views import AskView, ProblemView
from orchestrator.storage.records import NoSuchCheckpoint, StoreError

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"

E = TypeVar("E", bound=Exception)


class Ambiguous(OrchestratorError):
    """A short name of a task fits several."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.candidates = tuple(candidates)
        super().__init__(f"{name} may be any of {', '.join(candidates)}; say more of the id")


class NoSuchFile(OrchestratorError):
    """A task has no such artifact or agent."""


class NoSuchWindow(OrchestratorError):
    """Nothing was told of a usage window of that name."""


class NoSuchAsk(OrchestratorError):
    """A task asked nothing under that number, or something of another kind."""


class AnsweredBefore(OrchestratorError):
    """Somebody else was quicker; `ask` has the first answer, which counts."""

    def __init__(self, message: str, ask: AskView) -> None:
        self.ask = ask
        super().__init__(message)


class KeyTaken(OrchestratorError):
    """An Idempotency-Key was used before, for something else or with an unknown end."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is refused; `kind` is the last word of the document's type."""

    status: int
    kind: str
    title: str
    detail: str
    task_status: str | None = None
    allowed: tuple[str, ...] | None = None
    candidates: tuple[str, ...] | None = None
    ask: AskView | None = None


class Refusal(HTTPException):
    """Ends a request while its body is still being read, where the framework lets no error of ours through."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, problem.detail)
        self.problem = problem


KINDS: Sequence[tuple[type[OrchestratorError], int, str, str]] = (
    (NoSuchTask, 404, "no-such-task", "There is no such task"),
    (NoSuchWindow, 404, "no-such-window", "There is no such usage window"),
    (NoSuchFile, 404, "no-such-file", "There is no such file"),
    (NoSuchCheckpoint, 404, "no-such-checkpoint", "There is no such checkpoint"),
    (NoSuchAsk, 404, "no-such-ask", "There is no such question, review or dependency"),
    (BadAnswer, 422, "bad-answer", "The answer does not fit"),
    (AnswerRefused, 409, "not-seen", "The answer is to something else"),
    (KeyTaken, 409, "key-taken", "The Idempotency-Key was used before"),
    (AlreadyActive, 409, "at-work-already", "The ticket has a task at work"),
    (NoSuchTicket, 404, "no-such-ticket", "There is no such ticket"),
    (AuthenticationFailed, 502, "login-refused", "The tracker does not accept the login"),
    (UnfitAnswer, 502, "unfit-answer", "The tracker answered what cannot be understood"),
    (TrackerUnreachable, 503, "tracker-unreachable", "The tracker did not answer in time"),
    (NotCommitted, 507, "not-committed", "The request could not be written down"),
    (StoreError, 500, "unreadable", "A file of the task cannot be read"),
)
"""What tells nothing beside its message: status, kind and title; any other is a 422."""


def answer(problem: Problem) -> Response:
    """The response that says so."""
    view = ProblemView(
        type=f"urn:orchestrator:problem:{problem.kind}",
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        task_status=TaskStatus(problem.task_status) if problem.task_status else None,
        allowed=problem.allowed,
        candidates=problem.candidates,
        ask=problem.ask,
    )
    body = view.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE)


def problem_of(error: OrchestratorError) -> Problem:
    """What one of our errors is called over HTTP."""
    said = str(error)
    match error:
        case Ambiguous():
            return Problem(409, "ambiguous", "Several tasks fit", said, candidates=error.candidates)
        case InvalidTransition():
            title = "The task's state does not allow this"
            return Problem(409, "not-allowed", title, said, error.status, error.allowed)
        case AnsweredBefore():
            return Problem(409, "answered-before", "It was answered before", said, ask=error.ask)
        case _:
            found = (row for row in KINDS if isinstance(error, row[0]))
            _, status, kind, title = next(found, (None, 422, "refused", "The request was refused"))
            return Problem(status, kind, title, said)


def answer_with_problems(app: FastAPI) -> None:
    """Make every error of the app a problem document."""
    app.add_exception_handler(OrchestratorError, _ours)
    app.add_exception_handler(OSError, _disk)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


async def _ours(_: Request, error: Exception) -> Response:
    return answer(problem_of(_as(OrchestratorError, error)))


async def _disk(request: Request, error: Exception) -> Response:
    refused = _as(OSError, error)
    said = f"{refused.strerror or refused}: {refused.filename or 'no file is named'}; mend that, then ask again"
    if request.method == "GET":
        return answer(Problem(500, "unreadable", "A file of the task cannot be read", said))
    return answer(Problem(507, "not-committed", "The request could not be written down", said))


async def _invalid(request: Request, error: Exception) -> Response:
    problems = _as(RequestValidationError, error).errors()
    if any(found["loc"] == ("body",) and isinstance(found["input"], bytes) for found in problems):
        kind = request.headers.get("content-type") or "nothing"
        said = f"the body is said to be {kind!r:.80}; send JSON, as Content-Type: application/json"
        return answer(Problem(415, "unsupported-media-type", "The body is not JSON", said))
    said = "; ".join(map(_said, problems))
    return answer(Problem(400, "malformed", "The request is not well formed", said))


def _said(found: Mapping[str, Any]) -> str:
    """Where something is wrong in a request, and what."""
    place, *inner = found["loc"]
    if found["type"] == "json_invalid":
        return f"the body is no JSON: {found['ctx']['error']}, at character {inner[0] + 1}"
    return f"{'.'.join(map(str, inner)) or place}: {found['msg'].removeprefix('Value error, ')}"


async def _http(_: Request, error: Exception) -> Response:
    refused = _as(HTTPException, error)
    if isinstance(refused, Refusal):
        return answer(refused.problem)
    kind = HTTPStatus(refused.status_code).phrase
    return answer(Problem(refused.status_code, kind.lower().replace(" ", "-"), kind, str(refused.detail)))


async def _bug(request: Request, error: Exception) -> Response:
    log.error("request_failed", path=request.url.path, exc_info=error)
    said = "a mistake in the daemon; its log has the whole story"
    return answer(Problem(500, "mistake", "The daemon made a mistake", said))


def _as(kind: type[E], error: Exception) -> E:
    """The error as what its handler was registered for."""
    if not isinstance(error, kind):
        raise error
    return error
