"""Repositories that are named by an address."""

from fastapi import APIRouter

from orchestrator.daemon.sources.address import AddressRefused
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.task_input import SourceBody, SourceView

router = APIRouter(prefix="/api/sources", tags=["sources"])


@router.post("", responses=refuses(AddressRefused))
async def fetch(body: SourceBody, service: TheService) -> SourceView:
    """Clone a repository, or bring the daemon's copy up to date; ask again while its state is `fetching`."""
    found = await service.sources.fetch(body.address)
    given = {"address": found.address, "path": str(found.path), "state": found.state, "size": found.size}
    return to_view(SourceView, {**given, "since": found.since}, service.redact)
