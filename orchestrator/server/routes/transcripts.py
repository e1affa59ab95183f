"""What agents said and did, in words for people."""

from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.records import AttemptLine, AttemptList, TranscriptPage

router = APIRouter(prefix="/api/tasks/{name}/agents", tags=["agents"])


@router.get("")
async def agents(name: str, service: TheService) -> AttemptList:
    """List every agent that worked or works on the task, oldest first."""
    attempts = await service.transcripts.attempts(name)
    return AttemptList(attempts=tuple(AttemptLine.model_validate(one) for one in attempts))


@router.get("/{attempt}/transcript")
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
