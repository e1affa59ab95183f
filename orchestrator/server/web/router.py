"""All pages in one router. Forms come last: theirs are the most general addresses."""

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException

from orchestrator.server.web.compression import PageCompression
from orchestrator.server.web.forms import router as forms
from orchestrator.server.web.live import router as live
from orchestrator.server.web.page_route import show_unknown
from orchestrator.server.web.pages.api import router as api
from orchestrator.server.web.pages.audit import router as audit
from orchestrator.server.web.pages.batch import router as batch
from orchestrator.server.web.pages.board import router as board
from orchestrator.server.web.pages.draft import router as draft
from orchestrator.server.web.pages.everything import router as everything
from orchestrator.server.web.pages.limits import router as limits
from orchestrator.server.web.pages.login import router as login
from orchestrator.server.web.pages.new_task import router as new_task
from orchestrator.server.web.pages.now import router as now
from orchestrator.server.web.pages.pipelines import router as pipelines
from orchestrator.server.web.pages.report import router as report
from orchestrator.server.web.pages.service.backups import router as backups
from orchestrator.server.web.pages.service.disk import router as disk
from orchestrator.server.web.pages.service.intake import router as intake
from orchestrator.server.web.pages.service.notifications import router as notifications
from orchestrator.server.web.pages.service.schedules import router as schedules
from orchestrator.server.web.pages.setup import router as setup
from orchestrator.server.web.pages.task.artifacts import router as task_artifacts
from orchestrator.server.web.pages.task.changes import router as task_changes
from orchestrator.server.web.pages.task.checkpoints import router as task_checkpoints
from orchestrator.server.web.pages.task.checks import router as task_checks
from orchestrator.server.web.pages.task.diff import router as task_diff
from orchestrator.server.web.pages.task.header import router as task_header
from orchestrator.server.web.pages.task.journal import router as task_journal
from orchestrator.server.web.pages.task.overview import router as task_overview
from orchestrator.server.web.pages.task.timeline import router as task_timeline
from orchestrator.server.web.pages.task.transcript import router as task_transcript
from orchestrator.server.web.policy_reports import PolicyReports
from orchestrator.server.web.policy_reports import router as policy_reports
from orchestrator.server.web.shared_parts import SharedParts
from orchestrator.server.web.static_files import KeptFiles

ROUTERS: tuple[APIRouter, ...] = (
    api,
    batch,
    board,
    draft,
    everything,
    live,
    login,
    new_task,
    now,
    task_artifacts,
    task_changes,
    task_checkpoints,
    task_checks,
    task_diff,
    task_header,
    task_journal,
    task_overview,
    task_timeline,
    audit,
    backups,
    disk,
    intake,
    limits,
    notifications,
    pipelines,
    report,
    schedules,
    setup,
    task_transcript,
    policy_reports,
    forms,
)


def add_pages(app: FastAPI) -> None:
    """Add the pages and their static files to an app."""
    app.state.policy_reports = PolicyReports()
    app.state.shared_parts = SharedParts(app.state.service.changes)
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(HTTPException, show_unknown)
    app.mount("/static", KeptFiles(), name="static")
    app.add_middleware(PageCompression)
