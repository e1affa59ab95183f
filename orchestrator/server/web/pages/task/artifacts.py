"""The files that stages and checks left: Markdown as prose, JSON in order, others as they are; or downloaded."""

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from markupsafe import Markup

from orchestrator.daemon.history.aside import aside
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.records import artifacts as listed
from orchestrator.server.schemas.base import View
from orchestrator.server.schemas.records import ArtifactKind, artifact_kind
from orchestrator.server.web.content.changes import code_lines
from orchestrator.server.web.content.markdown import markdown
from orchestrator.server.web.content.visible import plain
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

LONGEST = 300_000
"""Characters of a file that are shown; of a longer one its end."""
LONGEST_ORDERED, DEEPEST_ORDERED = 100_000, 50
"""Characters of JSON that gets a line for each value, and how deep these may lie: each has an indentation as deep."""

_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*+"?', re.DOTALL)


class ArtifactQuery(View):
    """How a file is wanted."""

    download: bool = False
    source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """A file as HTML: as prose, or as lines of code."""

    lines: list[Markup]
    prose: Markup | None = None
    left_out: int = 0


@router.get("/tasks/{name}/artifacts")
async def artifacts(request: Request, service: TheService, name: str) -> Response:
    """List the files."""
    header = await header_of(service, name, "artifacts")
    found = await listed(name, service)
    return render(request, "artifacts/page.html", **(header | {"artifacts": found.artifacts}))


@router.get("/tasks/{name}/artifacts/{path:path}")
async def artifact(
    request: Request, service: TheService, name: str, path: str, wanted: Annotated[ArtifactQuery, Query()]
) -> Response:
    """Show a file, or send it to be kept."""
    text = await service.records.artifact(name, path)
    if wanted.download:
        return _download(path, text)
    kind = artifact_kind(path)
    found = await aside(shown, path, kind, text, as_source=wanted.source)
    header = await header_of(service, name, "artifacts")
    parts = {"artifact": path, "kind": kind, "source": wanted.source, "lines": found.lines, "prose": found.prose}
    return render(request, "artifacts/artifact.html", **(header | parts | {"left_out": found.left_out}))


def _download(path: str, text: str) -> Response:
    """Return a file that no browser shows or guesses the type of."""
    file = quote(path.rpartition("/")[2], safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{file}", "X-Content-Type-Options": "nosniff"}
    return Response(text.encode("utf-8", "replace"), media_type="application/octet-stream", headers=headers)


def shown(path: str, kind: ArtifactKind, text: str, *, as_source: bool) -> ShownText:
    """Return a file as HTML; of a very long one its end."""
    if kind is ArtifactKind.MARKDOWN and not as_source:
        return ShownText(lines=[], prose=markdown(text))
    if kind is ArtifactKind.JSON:
        text = _in_order(text)
    end = text[-LONGEST:]
    name = path if kind is ArtifactKind.JSON or path.endswith(".toml") else ""
    return ShownText(lines=code_lines(name, plain(end)), left_out=len(text) - len(end))


def _in_order(text: str) -> str:
    """Return JSON with a line for each value; what is no JSON, very long or very deep as it is."""
    if len(text) > LONGEST_ORDERED or _depth(text) > DEEPEST_ORDERED:
        return text
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def _depth(text: str) -> int:
    """Return how deep the values of JSON lie, told from its brackets alone."""
    brackets = re.sub(r"[^\[\]{}]+", "", _STRINGS.sub("", text))
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0)
