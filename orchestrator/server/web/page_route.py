"""Routes of pages: what is refused is shown as a page, or beside the form that asked."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from orchestrator.errors import OrchestratorError
from orchestrator.server.problems import answer, problem_for
from orchestrator.server.web.shared_parts import SHARED, SharedParts
from orchestrator.server.web.templates import render

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,80}", re.ASCII)
_FOR_PROGRAMS = ("/api/", "/mcp", "/openapi.json", "/static/")


class PageRoute(APIRoute):
    """A route of a page, which the OpenAPI document leaves out."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        super().__init__(path, endpoint, **{**more, "include_in_schema": False})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, with refusals shown to a person."""
        handle, is_shared = super().get_route_handler(), (self.openapi_extra or {}).items() >= SHARED.items()

        async def shown(request: Request) -> Response:
            try:
                if is_shared and "hx-request" in request.headers:
                    parts: SharedParts = request.app.state.shared_parts
                    return await parts.get(request, lambda: handle(request))
                return await handle(request)
            except (OrchestratorError, OSError, HTTPException, RequestValidationError) as error:
                return _refusal(request, error)

        return shown


async def show_unknown(request: Request, error: Exception) -> Response:
    """Answer what no route takes: with a page for a browser, except at the addresses of the API."""
    problem = problem_for(request, error)
    is_unknown = problem.status in {404, 405} and not request.url.path.startswith(_FOR_PROGRAMS)
    if is_unknown and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        return _refusal(request, error)
    return answer(problem)


def _refusal(request: Request, error: Exception) -> Response:
    """Return a page that says what is refused; for a form that a script sent only the words, to be put beside it."""
    problem = problem_for(request, error)
    form = request.headers.get("hx-trigger", "")
    if "hx-request" not in request.headers:
        return render(request, "problem.html", status=problem.status, problem=problem)
    beside = render(request, "_problem.html", status=problem.status, problem=problem)
    if _ID.fullmatch(form):
        beside.headers["HX-Retarget"] = f"#{form} .problem"
        beside.headers["HX-Reswap"] = "innerHTML"
    return beside
