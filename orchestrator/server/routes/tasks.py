"""Tasks: submit, list and look at them, and what a person may ask of one."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status

from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.access.verbs import Verb
from orchestrator.daemon.services.bulk import Ask, Outcome
from orchestrator.daemon.services.tasks import TaskQuery
from orchestrator.server.access.marks import ADMIN, lacks_scope
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import ANSWERED, CHANGED, DELETED, NAMED, TRACKER, refuses
from orchestrator.server.problems import RefusedRequest, problem_for, problem_view
from orchestrator.server.rendering import agent_state_view, submission_of, task_line, task_lines, task_view
from orchestrator.server.routes.dependencies import By, TaskName, TheCaller, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.task_input import BatchBody, ChangeBody, ImportBody, SubmissionBody, TaskFilter
from orchestrator.server.schemas.tasks import AgentStateView, BatchView, OutcomeView, TaskPage, TaskView, WhyView

router = APIRouter(prefix="/api/tasks", tags=["tasks"], route_class=KeyedRoute)


@router.get("")
async def tasks(service: TheService, wanted: Annotated[TaskFilter, Query()]) -> TaskPage:
    """List tasks, newest first; archived ones only when asked for."""
    found = await service.tasks.list(TaskQuery(**dict(wanted)))
    lines = await asyncio.to_thread(task_lines, found.tasks, service.redact)
    return compose_view(TaskPage, service.redact, found, tasks=lines)


@router.post("", status_code=status.HTTP_201_CREATED, responses=refuses(*NAMED, *TRACKER))
async def submit(body: SubmissionBody, response: Response, service: TheService, by: By) -> TaskView:
    """Submit a ticket."""
    task = await service.submissions.submit(submission_of(body), body.after, by)
    response.headers["Location"] = f"/api/tasks/{task.id}"
    return task_view(task, service.redact)


@router.post("/import", status_code=status.HTTP_201_CREATED, responses=refuses(*TRACKER))
async def take_over(body: ImportBody, response: Response, service: TheService, by: By) -> TaskView:
    """Continue a live workspace of the original system as a task."""
    task = await service.submissions.take_over(body.folder, body.base, by)
    response.headers["Location"] = f"/api/tasks/{task.id}"
    return task_view(task, service.redact)


@router.post("/batch", responses=refuses((403, "out-of-scope")))
async def batch(body: BatchBody, request: Request, service: TheService, caller: TheCaller) -> BatchView:
    """Ask the same of several tasks; each is answered for itself, with its problem if it is refused."""
    if body.verb is Verb.DELETE and not caller.may(Scope.ADMIN):
        raise RefusedRequest(lacks_scope(caller, Scope.ADMIN))
    caps = None if body.caps is None else body.caps.model_dump(exclude_unset=True)
    ask = Ask(verb=body.verb, by=str(caller), priority=body.priority, caps=caps, force=body.force)
    outcomes = await service.batches.ask(body.tasks, ask)
    results = tuple(_outcome(request, one, service.redact) for one in outcomes)
    refused = sum(one.problem is not None for one in results)
    return BatchView(results=results, done=len(results) - refused, refused=refused)


def _outcome(request: Request, one: Outcome, redact: Redact) -> OutcomeView:
    if one.error is not None:
        problem = problem_for(request, one.error)
        return OutcomeView(name=redact(one.name), status=problem.status, problem=problem_view(problem))
    if one.task is None:
        return OutcomeView(name=one.name, status=204)
    return OutcomeView(name=one.name, status=200, task=task_line(one.task, redact))


@router.get("/{name}")
async def task(name: TaskName, service: TheService) -> TaskView:
    """Show one task, whole."""
    found = await service.tasks.find(name)
    return task_view(found, service.redact, service.tasks.spent_by_all(found))


@router.get("/{name}/agent")
async def agent(name: TaskName, service: TheService) -> AgentStateView:
    """Show what the task's agent is doing."""
    return agent_state_view(await service.progress.agent(name), service.redact)


@router.get("/{name}/why")
async def why(name: TaskName, service: TheService) -> WhyView:
    """Say what keeps the task where it is, and what would move it."""
    task, found = await service.tasks.why(name)
    paused, by = task.is_paused, task.agent.blocked_by
    return compose_view(WhyView, service.redact, found, task, task=task.id, paused=paused, blocked_by=by)


@router.patch("/{name}", responses=refuses(*TRACKER, *CHANGED))
async def change(name: TaskName, service: TheService, by: By, body: ChangeBody) -> TaskView:
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


@router.post("/{name}/submit", responses=refuses(*CHANGED))
async def submit_draft(name: TaskName, service: TheService, by: By) -> TaskView:
    """Submit a draft."""
    return task_view(await service.tasks.submit_draft(name, by), service.redact)


@router.post("/{name}/execute", responses=refuses(*CHANGED))
async def execute(name: TaskName, service: TheService, by: By) -> TaskView:
    """Have the task go on: submit a draft, resume a paused task, retry a blocked one; else it stays as it is."""
    return task_view(await service.tasks.execute(name, by), service.redact)


@router.post("/{name}/merge", responses=refuses(*ANSWERED))
async def merge(name: TaskName, service: TheService, by: By) -> TaskView:
    """Approve the merge of the task's pull request; the daemon checks once more before it merges."""
    return task_view(await service.requests.merge(name, by), service.redact)


@router.post("/{name}/retry", responses=refuses(*TRACKER, *CHANGED))
async def retry(name: TaskName, service: TheService, by: By) -> TaskView:
    """Try the stage of a blocked task again, with all retries restored; of a failed task a new one is made."""
    return task_view(await service.tasks.retry(name, by), service.redact)


@router.post("/{name}/pause", responses=refuses(*CHANGED))
async def pause(name: TaskName, service: TheService, by: By) -> TaskView:
    """Pause the task until it is resumed."""
    return task_view(await service.tasks.pause(name, by), service.redact)


@router.post("/{name}/resume", responses=refuses(*CHANGED))
async def resume(name: TaskName, service: TheService, by: By) -> TaskView:
    """Resume a paused task."""
    return task_view(await service.tasks.resume(name, by), service.redact)


@router.post("/{name}/start", responses=refuses(*CHANGED))
async def start(name: TaskName, service: TheService, by: By) -> TaskView:
    """Let the task run now: before its start time, and outside its run windows until they close the next time."""
    return task_view(await service.tasks.start(name, by), service.redact)


@router.post("/{name}/cancel", responses=refuses(*CHANGED))
async def cancel(name: TaskName, service: TheService, by: By) -> TaskView:
    """Cancel the task."""
    return task_view(await service.tasks.cancel(name, by), service.redact)


@router.post("/{name}/review", responses=refuses(*CHANGED))
async def review(name: TaskName, service: TheService, by: By) -> TaskView:
    """Take up reviewers' comments on the task's pull request now."""
    return task_view(await service.tasks.review(name, by), service.redact)


@router.post("/{name}/archive", responses=refuses(*CHANGED))
async def archive(name: TaskName, service: TheService, by: By) -> TaskView:
    """Archive an ended task: lists leave it out, its worktree is removed, everything else is kept."""
    return task_view(await service.tasks.archive(name, by), service.redact)


@router.delete("/{name}", status_code=status.HTTP_204_NO_CONTENT, responses=refuses(*DELETED), openapi_extra=ADMIN)
async def delete(name: TaskName, service: TheService, by: By, force: Annotated[bool, Query()] = False) -> None:
    """Delete a draft or an ended task with all its files; its commits stay where they were delivered.

    Refused if work of the task exists nowhere else, unless with `force`.
    """
    await service.tasks.delete(name, by, force=force)
