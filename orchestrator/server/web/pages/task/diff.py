"""What a task's branch changes: files, each loaded when it comes into view, and comments on lines for the review."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from pydantic import Field

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.review_drafts import (
    LONGEST_COMMENT,
    CommentDraft,
    LineComment,
    Side,
    pending_review,
)
from orchestrator.daemon.service import Service
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.server.rendering import request_view
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.routes.texts import diff_view, file_diff_view
from orchestrator.server.schemas.base import View
from orchestrator.server.schemas.texts import DiffView
from orchestrator.server.web.content.changes import shown_hunks
from orchestrator.server.web.forms import Sent, done
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

MOST_SHOWN = 300
"""Files whose changes the page loads; those of the others have pages of their own, which the list leads to."""


class DiffQuery(View):
    """How a diff is shown, and from which line of a file's diff on."""

    view: Literal["unified", "split"] = "unified"
    line: int = Field(default=0, ge=0, le=10**9)


class PlaceQuery(View):
    """A line that somebody comments on."""

    side: Side = Side.NEW
    line: int = Field(ge=0, le=10**9)


class CommentForm(Sent):
    """A comment on a line of a file."""

    file: str = Field(max_length=64)
    side: Side = Side.NEW
    line: int = Field(ge=0, le=10**9)
    text: str = Field(max_length=LONGEST_COMMENT + 1000)


class FeedbackForm(Sent):
    """What is said beside the comments."""

    text: str = Field(default="", max_length=20_000)
    digest: str = Field(default="", max_length=64)


@router.get("/tasks/{name}/diff")
async def diff(
    request: Request, service: TheService, by: By, name: str, shown: Annotated[DiffQuery, Query()]
) -> Response:
    """Show which files the branch changes."""
    header = await header_of(service, name, "diff")
    parts = await _list(service, name) | await _draft(service, name, by) | {"view": shown.view, "most": MOST_SHOWN}
    return render(request, "diff/page.html", **(header | parts))


@router.get("/tasks/{name}/diff/draft")
async def draft(request: Request, service: TheService, by: By, name: str) -> Response:
    """Show the comments that are kept, and the forms that answer the review."""
    return render(request, "diff/_draft.html", home=_home(name), **await _draft(service, name, by))


@router.get("/tasks/{name}/diff/{file}")
async def file(
    request: Request, service: TheService, by: By, file: str, shown: Annotated[DiffQuery, Query()]
) -> Response:
    """Show the change of one file."""
    name = request.path_params["name"]
    parts = await _file(service, name, file, shown) | {"comments": await _by_line(service, name, file, by)}
    if "hx-request" in request.headers:
        return render(request, "diff/_part.html" if shown.line else "diff/_file.html", home=_home(name), **parts)
    header = await header_of(service, name, "diff")
    return render(request, "diff/file.html", **(header | parts))


@router.get("/tasks/{name}/diff/{file}/comment")
async def place(
    request: Request, service: TheService, name: str, file: str, at: Annotated[PlaceQuery, Query()]
) -> Response:
    """Show a form for a comment on a line."""
    parts: dict[str, Any] = {"file_id": file, "side": at.side, "line": at.line, "longest": LONGEST_COMMENT}
    if "hx-request" in request.headers:
        return render(request, "diff/_comment_row.html", home=_home(name), **parts)
    found = await service.history.diffs.file(name, file)
    path = file_diff_view(found, service.redact).file.path
    return render(request, "diff/comment.html", **(await header_of(service, name, "diff") | parts | {"at": path}))


@router.post("/tasks/{name}/diff/comments")
async def comment(
    request: Request, service: TheService, by: By, name: str, form: Annotated[CommentForm, Form()]
) -> Response:
    """Keep a comment for the review."""
    kept = await service.history.drafts.add(
        name, CommentDraft(file=form.file, side=form.side, line=form.line, text=form.text), by
    )
    if "hx-request" not in request.headers:
        return done(request, f"/tasks/{name}/diff/{kept.file}")
    answer = render(request, "diff/_kept_row.html", home=_home(name), one=kept)
    answer.headers["HX-Trigger"] = "live:task"
    return answer


@router.post("/tasks/{name}/diff/comments/{number}/remove")
async def remove(request: Request, service: TheService, by: By, number: int, form: Annotated[Sent, Form()]) -> Response:
    """Drop a comment."""
    name = request.path_params["name"]
    await service.history.drafts.remove(name, number, by)
    return done(request, form.next)


@router.post("/tasks/{name}/diff/request-changes")
async def request_changes(
    request: Request, service: TheService, by: By, name: str, form: Annotated[FeedbackForm, Form()]
) -> Response:
    """Answer the review with all comments."""
    await service.history.drafts.send(name, form.text, form.digest or None, by)
    return done(request, f"/tasks/{name}/diff")


def _home(name: str) -> str:
    return f"/tasks/{name}"


async def _list(service: Service, name: str) -> dict[str, Any]:
    try:
        found: DiffView | None = diff_view(await service.history.diffs.files(name), service.redact)
        nothing = ""
    except NoSuchFile as error:
        found, nothing = None, str(error)
    return {"diff": found, "nothing": nothing}


async def _draft(service: Service, name: str, by: str) -> dict[str, Any]:
    task = await service.tasks.find(name)
    review = pending_review(task)
    return {
        "kept": await service.history.drafts.comments(name, by),
        "review": None if review is None else request_view(task, review, service.redact),
    }


async def _file(service: Service, name: str, file: str, shown: DiffQuery) -> dict[str, Any]:
    found = await service.history.diffs.file(name, file, shown.line)
    view = file_diff_view(found, service.redact)
    hunks = await aside(shown_hunks, view.file.path, found.hunks)
    more = "" if found.next_line is None else f"?{urlencode({'view': shown.view, 'line': found.next_line})}"
    return {"file": view.file, "hunks": hunks, "more": more, "view": shown.view, "from_line": shown.line}


async def _by_line(service: Service, name: str, file: str, by: str) -> dict[tuple[str, int], list[LineComment]]:
    """Return the comments of a file by side and line."""
    kept: Sequence[LineComment] = [one for one in await service.history.drafts.comments(name, by) if one.file == file]
    found: dict[tuple[str, int], list[LineComment]] = {}
    for one in kept:
        found.setdefault((one.side.value, one.line), []).append(one)
    return found
