"""What a task left on disk: its journal, its state, the artifacts of its stages and checks, what its agents said."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import JsonValue

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.services import errors
from orchestrator.errors import OrchestratorError
from orchestrator.formats.camel_case import camel_keys, camel_patch
from orchestrator.formats.codec import JsonObject
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.routes.dependencies import TaskName, TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.records import (
    ArtifactLine,
    ArtifactList,
    AttemptLine,
    AttemptList,
    JournalEntry,
    JournalPage,
    TimelineFilter,
    TimelineView,
    TranscriptPage,
    artifact_kind,
)
from orchestrator.server.schemas.tasks import FailuresView


class ZipResponse(StreamingResponse):
    """A ZIP archive, sent while it is made."""

    media_type = "application/zip"


router = APIRouter(prefix="/api/tasks/{name}", tags=["records"])
agents_router = APIRouter(prefix="/api/tasks/{name}", tags=["agents"])


@router.get("/journal")
async def journal(
    name: TaskName,
    service: TheService,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> JournalPage:
    """Show the decisions after number `since`, oldest first."""
    lines = await service.records.journal(name, since, limit)
    entries = tuple(JournalEntry.model_validate(_with_camel_case(line)) for line in lines)
    return JournalPage(entries=entries, next_since=entries[-1].seq if entries else since)


@router.get("/timeline")
async def timeline(name: TaskName, service: TheService, within: Annotated[TimelineFilter, Query()]) -> TimelineView:
    """Show when the task's stages, agents, turns, checks and pauses began and ended, oldest first."""
    found = await service.history.timelines.timeline(name)
    return await aside(TimelineView.model_validate, found.within(within.from_, within.to))


@router.get("/state")
async def state(name: TaskName, service: TheService) -> JsonValue:
    """Show the document of state.json, in its own names."""
    return await service.records.state(name)


@router.get("/failures")
async def failures(name: TaskName, service: TheService) -> FailuresView:
    """Show what went wrong so far."""
    return to_view(FailuresView, await service.records.failures(name), service.redact)


@router.get("/artifacts")
async def artifacts(name: TaskName, service: TheService) -> ArtifactList:
    """List what stages and checks left."""
    found = await service.records.artifacts(name)
    lines = (
        {"path": one.name, "kind": artifact_kind(one.name), "size": one.size, "modifiedAt": one.modified_at}
        for one in found
    )
    return ArtifactList(artifacts=tuple(to_view(ArtifactLine, line, str) for line in lines))


@router.get("/artifacts/{path:path}", response_class=PlainTextResponse, responses=refuses(errors.NoSuchFile))
async def artifact(name: TaskName, service: TheService, path: str) -> str:
    """Show the text of an artifact; of a long one its end."""
    return await service.records.artifact(name, path)


@router.get("/deliverables", response_class=ZipResponse, responses=refuses(errors.NoSuchFile, OrchestratorError))
async def deliverables(name: TaskName, service: TheService) -> ZipResponse:
    """Send a ZIP archive of the documents that the task's stages left and of the files that its commits changed."""
    archive = await service.archives.archive(name)
    headers = {"Content-Disposition": f'attachment; filename="{archive.name}"'}
    return ZipResponse(archive.chunks, headers=headers)


@agents_router.get("/agents")
async def agents(name: TaskName, service: TheService) -> AttemptList:
    """List every agent that worked or works on the task, oldest first."""
    attempts = await service.history.transcripts.attempts(name)
    return AttemptList(attempts=tuple(AttemptLine.model_validate(one) for one in attempts))


@agents_router.get("/agents/{attempt}/transcript", responses=refuses(errors.NoSuchFile))
async def transcript(
    name: TaskName,
    service: TheService,
    attempt: int,
    offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    raw: bool = False,
) -> TranscriptPage:
    """Show what an agent said and did from an offset on; ask again from `nextOffset` until `ended`."""
    page = await service.history.transcripts.transcript(name, attempt, offset, raw=raw)
    return await asyncio.to_thread(to_view, TranscriptPage, page, service.redact)


def _with_camel_case(line: JsonObject) -> JsonObject:
    return {
        **line,
        "metadata": camel_keys(line["metadata"]),
        "event": camel_keys(line["event"]),
        "change": camel_patch(line["change"]),
    }
