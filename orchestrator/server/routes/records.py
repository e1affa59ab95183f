"""What a task left on disk: its journal, its state, the artifacts of its stages and checks, what its agents said."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import JsonValue

from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import compose_view, to_view
from orchestrator.server.schemas.records import (
    ArtifactLine,
    ArtifactList,
    AttemptLine,
    AttemptList,
    JournalEntry,
    JournalPage,
    TranscriptPage,
)
from orchestrator.server.schemas.tasks import FailuresView

router = APIRouter(prefix="/api/tasks/{name}", tags=["records"])
agents_router = APIRouter(prefix="/api/tasks/{name}", tags=["agents"])


@router.get("/journal")
async def journal(
    name: str,
    service: TheService,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> JournalPage:
    """Show the decisions after number `since`, oldest first."""
    lines = await service.records.journal(name, since, limit)
    entries = tuple(JournalEntry.model_validate(line) for line in lines)
    return JournalPage(entries=entries, next_since=entries[-1].seq if entries else since)


@router.get("/state")
async def state(name: str, service: TheService) -> JsonValue:
    """Show the document of state.json, in its own names."""
    return await service.records.state(name)


@router.get("/failures")
async def failures(name: str, service: TheService) -> FailuresView:
    """Show what went wrong so far."""
    return to_view(FailuresView, await service.records.failures(name), service.redact)


@router.get("/artifacts")
async def artifacts(name: str, service: TheService) -> ArtifactList:
    """List what stages and checks left."""
    found = await service.records.artifacts(name)
    return ArtifactList(artifacts=tuple(compose_view(ArtifactLine, str, one, path=one.name) for one in found))


@router.get("/artifacts/{path:path}", response_class=PlainTextResponse)
async def artifact(name: str, service: TheService, path: str) -> str:
    """Show the text of an artifact; of a long one its end."""
    return await service.records.artifact(name, path)


@router.get("/deliverables", response_class=StreamingResponse)
async def deliverables(name: str, service: TheService) -> StreamingResponse:
    """Send a ZIP archive of the documents that the task's stages left and of the files that its commits changed."""
    archive = await service.archives.archive(name)
    headers = {"Content-Disposition": f'attachment; filename="{archive.name}"'}
    return StreamingResponse(archive.chunks, media_type="application/zip", headers=headers)


@agents_router.get("/agents")
async def agents(name: str, service: TheService) -> AttemptList:
    """List every agent that worked or works on the task, oldest first."""
    attempts = await service.transcripts.attempts(name)
    return AttemptList(attempts=tuple(AttemptLine.model_validate(one) for one in attempts))


@agents_router.get("/agents/{attempt}/transcript")
async def transcript(
    name: str,
    service: TheService,
    attempt: int,
    offset: Annotated[int, Query(ge=0, lt=2**63)] = 0,
    raw: bool = False,
) -> TranscriptPage:
    """Show what an agent said and did from an offset on; ask again from `nextOffset` until `ended`."""
    page = await service.transcripts.transcript(name, attempt, offset, raw=raw)
    return to_view(TranscriptPage, page, service.redact)
