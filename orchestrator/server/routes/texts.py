"""What a task's branch changes, and windows of what its agents said."""

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import StreamingResponse

from orchestrator.daemon.history.diffs import FileChange, FileDiff, TaskDiff
from orchestrator.daemon.history.transcript_windows import TranscriptWindow, WindowQuery
from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError
from orchestrator.server.openapi.refusals import Responses, refuses
from orchestrator.server.routes.dependencies import TaskName, TheService
from orchestrator.server.schemas.base import Redact, compose_view, to_view
from orchestrator.server.schemas.texts import (
    ChangedFileView,
    CommitView,
    DiffFilter,
    DiffView,
    FileDiffView,
    HunkView,
    TranscriptWindowView,
    WindowFilter,
)

router = APIRouter(prefix="/api/tasks/{name}", tags=["records"])

PATCH = "text/x-diff"
_ANSWERS: Responses = {
    200: {"content": {PATCH: {"schema": {"type": "string"}}}},
    **refuses(errors.NoSuchFile, OrchestratorError),
}


@router.get("/diff", response_model=DiffView | FileDiffView, responses=_ANSWERS)
async def diff(
    name: TaskName,
    service: TheService,
    wanted: Annotated[DiffFilter, Query()],
    accept: Annotated[str, Header(max_length=500)] = "",
) -> DiffView | FileDiffView | StreamingResponse:
    """Show what the task's branch changes: the list of files, one file, or the whole patch.

    The patch is sent as it is made, at most 20 MiB of it; a last line says if it was cut. Secrets are masked in it.
    """
    if wanted.path:
        return file_diff_view(await service.history.diffs.file(name, wanted.path, wanted.line), service.redact)
    if wanted.format == "patch" or accept.partition(",")[0].partition(";")[0].strip() == PATCH:
        patch = await service.history.diffs.patch(name)
        return StreamingResponse(patch, media_type=PATCH, headers={"X-Content-Type-Options": "nosniff"})
    return diff_view(await service.history.diffs.files(name), service.redact)


@router.get("/agents/{attempt}/entries", responses=refuses(errors.NoSuchFile))
async def entries(
    name: TaskName,
    service: TheService,
    attempt: Annotated[int, Path(ge=0, le=10**9)],
    wanted: Annotated[WindowFilter, Query()],
) -> TranscriptWindowView:
    """Show some entries of an agent's transcript, forward or backward from an offset, of chosen kinds, with a text."""
    return window_view(await service.history.windows.window(name, attempt, window_query(wanted)))


def window_query(wanted: WindowFilter) -> WindowQuery:
    """Return what is asked for."""
    return WindowQuery(
        at=wanted.at, backward=wanted.backward, limit=wanted.limit, kinds=frozenset(wanted.kind), text=wanted.text
    )


def window_view(window: TranscriptWindow) -> TranscriptWindowView:
    """Return a window; its texts are masked already."""
    return to_view(TranscriptWindowView, window, str)


def diff_view(found: TaskDiff, redact: Redact) -> DiffView:
    """Return what a branch changes; the names of files and the subjects of commits are masked already."""
    return compose_view(
        DiffView,
        redact,
        found,
        task=found.task.id,
        branch=found.task.source.branch,
        files=tuple(_file_view(one) for one in found.files),
        additions=found.added,
        deletions=found.removed,
        commits=tuple(to_view(CommitView, one, str) for one in found.commits),
    )


def file_diff_view(found: FileDiff, redact: Redact) -> FileDiffView:
    """Return the change of one file; its lines are masked already."""
    diff = found.diff
    return compose_view(
        FileDiffView,
        redact,
        found,
        task=diff.task.id,
        base=diff.base,
        head=diff.head,
        file=_file_view(found.change),
        hunks=tuple(to_view(HunkView, hunk, str) for hunk in found.hunks),
    )


def _file_view(one: FileChange) -> ChangedFileView:
    file = one.file
    return compose_view(
        ChangedFileView, str, one, file, status=file.change, additions=file.added, deletions=file.removed
    )
