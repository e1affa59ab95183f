"""Refusals as problem documents (RFC 9457), and which of our errors is which."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from orchestrator.api.views import ProblemView
from orchestrator.checkpoint_files import NoSuchCheckpoint
from orchestrator.core.errors import InvalidTransition, OrchestratorError
from orchestrator.core.model import TaskStatus
from orchestrator.journal import StoreError
from orchestrator.supervisor import NoSuchTask, NotCommitted

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


class Refusal(HTTPException):
    """Ends a request while its body is still being read, where the framework lets no error of ours through."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, problem.detail)
        self.problem = problem


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
    )
    body = view.model_dump_json(by_alias=True, exclude_none=True)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE)


def problem_of(error: OrchestratorError) -> Problem:
    """What one of our errors is called over HTTP."""
    match error:
        case NoSuchTask():
            return Problem(404, "no-such-task", "There is no such task", str(error))
        case NoSuchFile():
            return Problem(404, "no-such-file", "There is no such file", str(error))
        case NoSuchCheckpoint():
            return Problem(404, "no-such-checkpoint", "There is no such checkpoint", str(error))
        case Ambiguous():
            return Problem(409, "ambiguous", "Several tasks fit", str(error), candidates=error.candidates)
        case InvalidTransition():
            title = "The task's state does not allow this"
            return Problem(409, "not-allowed", title, str(error), error.status, error.allowed)
        case KeyTaken():
            return Problem(409, "key-taken", "The Idempotency-Key was used before", str(error))
        case NotCommitted():
            return Problem(507, "not-committed", "The request could not be written down", str(error))
        case StoreError():
            return Problem(500, "unreadable", "A file of the task cannot be read", str(error))
        case _:
            return Problem(422, "refused", "The request was refused", str(error))


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


async def _invalid(_: Request, error: Exception) -> Response:
    problems = _as(RequestValidationError, error).errors()
    said = "; ".join(f"{'.'.join(map(str, found['loc'][1:])) or found['loc'][0]}: {found['msg']}" for found in problems)
    return answer(Problem(400, "malformed", "The request is not well formed", said))


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
