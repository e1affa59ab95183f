"""What the forms of the pages do: requests answered, tasks moved. A form answers with the page that it was on."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.core.task.user_requests import LONGEST_ANSWER
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.daemon.services.user_requests import UserRequestService
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.web.languages import COOKIE, TEXTS
from orchestrator.server.web.page_route import PageRoute

router = APIRouter(route_class=PageRoute)


class Sent(BaseModel):
    """What every form sends: `next` is the page that it is on."""

    model_config = ConfigDict(frozen=True)

    next: str = Field(default="/", max_length=500)


class RequestForm(Sent):
    """What a form about a request sends; each kind of answer uses its own field."""

    digest: str = Field(default="", max_length=64)
    answer: str = Field(default="", max_length=LONGEST_ANSWER)
    text: str = Field(default="", max_length=LONGEST_ANSWER)
    reason: str = Field(default="", max_length=LONGEST_ANSWER)
    value: str = Field(default="", repr=False)

    @property
    def seen(self) -> str | None:
        """The digest of what was shown, if the form names it."""
        return self.digest or None


ANSWERS: Mapping[str, Callable[[UserRequestService, str, RequestForm, str], Awaitable[object]]] = {
    "answer": lambda requests, name, form, by: requests.answer(name, form.answer, form.seen, by),
    "skip": lambda requests, name, form, by: requests.skip(name, form.seen, by),
    "approve": lambda requests, name, form, by: requests.approve(name, form.seen, by),
    "request-changes": lambda requests, name, form, by: requests.request_changes(name, form.text, form.seen, by),
    "provide": lambda requests, name, form, by: requests.provide(name, form.value or None, by),
    "reject": lambda requests, name, form, by: requests.reject(name, form.reason, by),
}
"""What can be done with a request, by the last part of the form's address."""

MOVES: Mapping[str, Callable[[TaskService, str, str], Awaitable[object]]] = {
    "submit": TaskService.submit_draft,
    "pause": TaskService.pause,
    "resume": TaskService.resume,
    "retry": TaskService.retry,
    "cancel": TaskService.cancel,
    "review": TaskService.review,
    "archive": TaskService.archive,
}
"""What can be done with a task that stays where it is, by the last part of the form's address."""


def is_own_path(path: str) -> bool:
    """Return whether an address leads to a page of this site, whatever a browser makes of it."""
    return path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()


def own_path(path: str, otherwise: str = "/") -> str:
    """Return an address if it leads to a page of this site, else another one."""
    return path if is_own_path(path) else otherwise


def done(request: Request, to: str) -> Response:
    """Return to the page that the form was on; a script that sent the form has the page's parts ask again instead."""
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={"HX-Trigger": "live:tasks, live:task"})
    return RedirectResponse(own_path(to), status_code=303)


@router.post("/requests/{name}/{verb}")
async def answer(request: Request, service: TheService, by: By, form: Annotated[RequestForm, Form()]) -> Response:
    """Answer what a person was asked."""
    verb = ANSWERS.get(request.path_params["verb"])
    if verb is None:
        raise HTTPException(404)
    await verb(service.requests, request.path_params["name"], form, by)
    return done(request, form.next)


@router.post("/tasks/{name}/{verb}")
async def move(request: Request, service: TheService, by: By, form: Annotated[Sent, Form()]) -> Response:
    """Do something with a task."""
    verb = MOVES.get(request.path_params["verb"])
    if verb is None:
        raise HTTPException(404)
    await verb(service.tasks, request.path_params["name"], by)
    return done(request, form.next)


class LanguageForm(Sent):
    """The language that a reader chooses."""

    language: str = Field(max_length=10)


@router.post("/language")
async def language(form: Annotated[LanguageForm, Form()]) -> Response:
    """Choose the language of the pages in this browser."""
    answer = RedirectResponse(own_path(form.next), status_code=303)
    if form.language in TEXTS:
        answer.set_cookie(COOKIE, form.language, max_age=365 * 24 * 3600, httponly=True, samesite="strict")
    return answer
