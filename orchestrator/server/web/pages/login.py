"""Logging a browser in by a one-time link, and out.

The link shows a form, which sends its code: programs that look at links before a person does use nothing up.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.daemon.access.credentials import SESSION_LASTS
from orchestrator.server.access.requests import COOKIE, scheme_of, session_of
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

Code = Annotated[str, Query(max_length=100)]


class LoginForm(BaseModel):
    """What the form of a link sends."""

    model_config = ConfigDict(frozen=True)

    code: str = Field(max_length=100, repr=False)


def login_needed(request: Request) -> Response:
    """Return the page for a browser that is not logged in."""
    answer = render(request, "login/page.html", status=401, code="", was_refused=False)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


@router.get("/login")
async def login(request: Request, code: Code = "") -> Response:
    """Show the form that uses a link up."""
    return render(request, "login/page.html", code=code, was_refused=False)


@router.post("/login")
async def begin(request: Request, service: TheService, form: Annotated[LoginForm, Form()]) -> Response:
    """Begin a session; one that the browser had before ends."""
    secret = await service.credentials.begin_session(form.code)
    if secret is None:
        return render(request, "login/page.html", status=403, code="", was_refused=True)
    if before := session_of(request.scope):
        await service.credentials.end_session(before)
    answer = RedirectResponse("/", status_code=303)
    answer.set_cookie(
        COOKIE,
        secret,
        max_age=int(SESSION_LASTS.total_seconds()),
        secure=scheme_of(request.scope) == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/logout")
async def logout(request: Request, service: TheService) -> Response:
    """End the session of this browser."""
    if session := session_of(request.scope):
        await service.credentials.end_session(session)
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
