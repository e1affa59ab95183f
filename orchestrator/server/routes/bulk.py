"""What a person may ask of all tasks at once: pause, resume, and make ready for a restart."""

from fastapi import APIRouter

from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.rendering import many_view
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.tasks import ManyView

router = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)


@router.post("/pause")
async def pause_all(service: TheService, by: By) -> ManyView:
    """Pause every task, and every task submitted later, until all is resumed."""
    return many_view(await service.bulk.pause_all(by), service.redact)


@router.post("/resume")
async def resume_all(service: TheService, by: By) -> ManyView:
    """Resume every task that waits for a person's word, and admit tasks again after a drain or a refusal."""
    return many_view(await service.bulk.resume_all(by), service.redact)


@router.post("/drain")
async def drain(service: TheService) -> ManyView:
    """Admit no more tasks and end every agent, keeping its session, until the daemon restarts or all is resumed."""
    return many_view(await service.bulk.drain(), service.redact)
