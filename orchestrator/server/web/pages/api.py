"""The API's routes as a page, made from its OpenAPI document."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from fastapi import APIRouter, Request, Response

from orchestrator.daemon.access.scopes import Scope
from orchestrator.server.access.marks import MARK
from orchestrator.server.access.requests import OPEN_OVER_TCP, UNSAFE
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)


class Line(NamedTuple):
    """One route: what it needs, and what it does."""

    method: str
    path: str
    scope: str
    text: str


@router.get("/docs")
async def docs(request: Request) -> Response:
    """List what programs can ask, by subject."""
    subjects: dict[str, list[Line]] = {}
    for path, verbs in orjson.loads(await request.app.document())["paths"].items():
        for verb, told in verbs.items():
            subjects.setdefault((told.get("tags") or ["daemon"])[0], []).append(_line(verb.upper(), path, told))
    return render(request, "docs/page.html", subjects=sorted(subjects.items()))


def _line(method: str, path: str, told: Mapping[str, Any]) -> Line:
    needed = told.get(MARK) or (Scope.OPERATE if method in UNSAFE else Scope.VIEW)
    text = told.get("description") or told.get("summary") or ""
    return Line(method, path, "" if path in OPEN_OVER_TCP else str(needed), text.splitlines()[0] if text else "")
