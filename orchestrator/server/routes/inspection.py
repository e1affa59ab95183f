"""How the daemon is set up, what would stop it, and who did what."""

from typing import Annotated

from fastapi import APIRouter, Query

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.inspection.audit import AuditQuery
from orchestrator.daemon.service import Service
from orchestrator.server.openapi.refusals import NAMED, refuses
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.oversight.inspection import (
    AuditEntryView,
    AuditView,
    DoctorView,
    FindingView,
    SettingsFileView,
    SettingsView,
    SettingView,
)

router = APIRouter(prefix="/api", tags=["daemon"])


@router.get("/settings")
async def settings(service: TheService) -> SettingsView:
    """Show every setting in force, and where its value comes from; what may be a secret is masked."""
    found = service.oversight.settings.in_force()
    return compose_view(
        SettingsView,
        service.redact,
        values=tuple(compose_view(SettingView, service.redact, one) for one in found.values),
        files=tuple(SettingsFileView(path=str(path), is_read=is_read) for path, is_read in found.files),
    )


@router.get("/doctor")
async def doctor(service: TheService) -> DoctorView:
    """Show what would stop an unattended night, with the command that fixes it; found at most a minute ago."""
    found = await service.oversight.doctor.examine()
    findings = tuple(compose_view(FindingView, service.redact, one) for one in found.findings)
    return compose_view(DoctorView, service.redact, found, findings=findings)


@router.get("/audit", responses=refuses(*NAMED))
async def audit(
    service: TheService,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    by: Annotated[str, Query(max_length=200)] = "",
    task: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditView:
    """Show the decisions that somebody asked for, newest first: all, of whoever's name contains `by`, or of a task."""
    task_id = await service.tasks.index.find_id(task) if task else ""
    return await read_audit(service, AuditQuery(before=before, by=by, task=task_id, limit=limit))


async def read_audit(service: Service, query: AuditQuery) -> AuditView:
    """Return a page of the audit; its texts are redacted in a thread."""
    page = await service.oversight.audit.page(query)

    def view() -> AuditView:
        entries = tuple(compose_view(AuditEntryView, service.redact, one) for one in page.entries)
        return compose_view(AuditView, service.redact, page, entries=entries)

    return await aside(view)
