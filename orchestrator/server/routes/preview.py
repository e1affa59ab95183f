"""A look at a submission before it is made."""

from fastapi import APIRouter

from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import NAMED, TRACKER, refuses
from orchestrator.server.rendering import preview_view, submission_of
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.preview import PreviewView
from orchestrator.server.schemas.task_input import SubmissionBody

router = APIRouter(prefix="/api", tags=["tasks"], route_class=KeyedRoute)


@router.post("/preview", responses=refuses(*NAMED, *TRACKER))
async def preview(body: SubmissionBody, service: TheService) -> PreviewView:
    """Show what a submission would become: its pipeline, its base, its checks, and what to know; it makes nothing.

    The text may be empty.
    """
    return preview_view(await service.preview.preview(submission_of(body), body.after), service.redact)
