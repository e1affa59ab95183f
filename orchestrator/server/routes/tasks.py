"""Tasks: submit, list and look at them, and what a person may ask of one."""

from typing import Annotated

from fastapi import APIRouter, Query, Response, status

from orchestrator.core.task.ticket import TicketList
from orchestrator.daemon.services.tasks import TaskQuery
from orchestrator.daemon.task_factory import Submission
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.rendering import agent_state_view, task_lines, task_view
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.task_input import ChangeBody, ImportBody, SubmissionBody, TaskFilter
from orchestrator.server.schemas.tasks import AgentStateView, TaskPage, TaskView, WhyView

router = APIRouter(prefix="/api/tasks", tags=["tasks"], route_class=KeyedRoute)


@router.get("")
async def tasks(service: TheService, wanted: Annotated[TaskFilter, Query()]) -> TaskPage:
    """List tasks, newest first; archived ones only when asked for."""
    found = await service.tasks.list(TaskQuery(**dict(wanted)))
    return compose_view(TaskPage, service.redact, found, tasks=task_lines(found.tasks, service.redact))


@router.post("", status_code=status.HTTP_201_CREATED)
async def submit(body: SubmissionBody, response: Response, service: TheService, by: By) -> TaskView:
    """Submit a ticket."""
    tickets = TicketList(**dict(body.tickets)) if body.tickets else None
    submission = Submission(**{**dict(body), "after": (), "tickets": tickets})
    task = await service.submissions.submit(submission, body.after, by)
    response.headers["Location"] = f"/api/tasks/{task.id}"
    return task_view(task, service.redact)


@router.post("/import", status_code=status.HTTP_201_CREATED)
async def take_over(body: ImportBody, response: Response, service: TheService, by: By) -> TaskView:
    """Continue a live workspace of the original system as a task."""
    task = await service.submissions.take_over(body.folder, body.base, by)
    response.headers["Location"] = f"/api/tasks/{task.id}"
    return task_view(task, service.redact)


@router.get("/{name}")
async def task(name: str, service: TheService) -> TaskView:
    """Show one task, whole."""
    found = await service.tasks.find(name)
    return task_view(found, service.redact, service.tasks.spent_by_all(found))


@router.get("/{name}/agent")
async def agent(name: str, service: TheService) -> AgentStateView:
    """Show what the task's agent is doing."""
    return agent_state_view(await service.progress.agent(name), service.redact)


@router.get("/{name}/why")
async def why(name: str, service: TheService) -> WhyView:
    """Say what keeps the task where it is, and what would move it."""
    task, found = await service.tasks.why(name)
    paused, by = task.is_paused, task.agent.blocked_by
    return compose_view(WhyView, service.redact, found, task, task=task.id, paused=paused, blocked_by=by)


@router.patch("/{name}")
async def change(name: str, service: TheService, by: By, body: ChangeBody) -> TaskView:
    """Change the task's priority and caps; one that the old caps paused resumes if the new ones allow it.

    While the task is a draft, every other field of its submission may be changed too.
    """
    caps = None if body.caps is None else body.caps.model_dump(exclude_unset=True)
    if changes := body.draft_changes:
        name = (await service.submissions.change(name, changes, by)).id
    changed = await service.tasks.find(name)
    if caps is not None or body.priority is not None or not body.draft_changes:
        changed = await service.tasks.change(name, body.priority, caps, by)
    return task_view(changed, service.redact, service.tasks.spent_by_all(changed))


@router.post("/{name}/submit")
async def submit_draft(name: str, service: TheService, by: By) -> TaskView:
    """Submit a draft."""
    return task_view(await service.tasks.submit_draft(name, by), service.redact)


@router.post("/{name}/retry")
async def retry(name: str, service: TheService, by: By) -> TaskView:
    """Try the stage of a blocked task again, with all retries restored; of a failed task a new one is made."""
    return task_view(await service.tasks.retry(name, by), service.redact)


@router.post("/{name}/pause")
async def pause(name: str, service: TheService, by: By) -> TaskView:
    """Pause the task until it is resumed."""
    return task_view(await service.tasks.pause(name, by), service.redact)


@router.post("/{name}/resume")
async def resume(name: str, service: TheService, by: By) -> TaskView:
    """Resume a paused task."""
    return task_view(await service.tasks.resume(name, by), service.redact)


@router.post("/{name}/cancel")
async def cancel(name: str, service: TheService, by: By) -> TaskView:
    """Cancel the task."""
    return task_view(await service.tasks.cancel(name, by), service.redact)


@router.post("/{name}/review")
async def review(name: str, service: TheService, by: By) -> TaskView:
    """Take up reviewers' comments on the task's pull request now."""
    return task_view(await service.tasks.review(name, by), service.redact)


@router.post("/{name}/archive")
async def archive(name: str, service: TheService, by: By) -> TaskView:
    """Archive an ended task: lists leave it out, its worktree is removed, everything else is kept."""
    return task_view(await service.tasks.archive(name, by), service.redact)


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT)
async def delete(name: str, service: TheService) -> None:
    """Delete a draft or an ended task with all its files; its commits stay where they were delivered."""
    await service.tasks.delete(name)
