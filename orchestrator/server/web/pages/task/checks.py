"""The output of one check of a task: of its last run, or of the one under way."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from orchestrator.core.task.task import Task
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.service import Service
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.redaction.display import escape_text, remove_disguise
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.tasks import CheckResultView, CheckView
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

LONGEST = 200_000
"""Characters of the output that are shown; of a longer one its end."""


@router.get("/tasks/{name}/checks/{check:path}")
async def check(request: Request, service: TheService, name: str, check: str) -> Response:
    """Show a check with its output."""
    parts = await _check(service, name, check)
    if "hx-request" in request.headers:
        return render(request, "task/_check.html", **parts)
    return render(request, "task/check.html", **(await header_of(service, name, "overview") | parts))


async def _check(service: Service, name: str, check: str) -> dict[str, Any]:
    task = await service.tasks.find(name)
    declared = next((one for one in task.evaluation.checks if one.name == check), None)
    result = task.evaluation.results.get(check)
    path = _running(task, check) or (result.log if result else None)
    if path is None:
        raise NoSuchFile(f"the check {escape_text(check)} of {task.id} has left no output")
    text = await aside(remove_disguise, await service.records.artifact(task.id, path))
    return {
        "home": f"/tasks/{task.id}",
        "check_name": service.redact(check),
        "check": None if declared is None else to_view(CheckView, declared, service.redact),
        "result": None if result is None else to_view(CheckResultView, result, service.redact),
        "runs": _running(task, check) is not None,
        "here": f"/tasks/{task.id}/checks/{quote(check, safe='')}",
        "output": text[-LONGEST:],
        "left_out": max(0, len(text) - LONGEST),
    }


def _running(task: Task, check: str) -> str | None:
    """Return where the output of a check goes that runs now."""
    folder = task.run.folder if task.run else ""
    is_here = folder.startswith("logs/") and folder.partition("-")[2] == check
    return f"{folder}/stdout.jsonl" if is_here else None
