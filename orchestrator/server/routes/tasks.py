"""Tasks: list, take in, look at one, and what a person may ask of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response, status

from orchestrator import clock
from orchestrator.core.decide.transitions import allowed, require
from orchestrator.core.events.events import (
    CancelRequested,
    CapsChanged,
    DraftSubmitted,
    Event,
    PauseRequested,
    PriorityChanged,
    ResumeRequested,
    RetryRequested,
)
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.task_factory import Submission, SubmissionRefused
from orchestrator.errors import InvalidTransition
from orchestrator.server.backend import Backend, backend_of
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.schemas.bodies import ChangeBody, TaskFilter
from orchestrator.server.schemas.task_views import task_line, task_view
from orchestrator.server.schemas.views import SubmissionBody, TaskPage, TaskView, WhyView, to_view
from orchestrator.server.task_index import TaskIndex, task_age
from orchestrator.storage.records import TaskSummary

router = APIRouter(prefix="/api/tasks", tags=["tasks"], route_class=KeyedRoute)


def register_of(request: Request) -> TaskIndex:
    """The register that the app was made with."""
    register: TaskIndex = request.app.state.register
    return register


async def task_named(name: str, request: Request) -> Task:
    """The task that a path means."""
    return await register_of(request).find(name)


def name_of_caller(request: Request) -> str:
    """Who asks, for the record."""
    return str(caller_of(request))


TheBackend = Annotated[Backend, Depends(backend_of)]
TheRegister = Annotated[TaskIndex, Depends(register_of)]
TheTask = Annotated[Task, Depends(task_named)]
By = Annotated[str, Depends(name_of_caller)]


@router.get("")
async def tasks(backend: TheBackend, register: TheRegister, wanted: Annotated[TaskFilter, Query()]) -> TaskPage:
    """Tasks, newest first; archived ones only when asked for."""
    found = [one for one in await register.everything() if _fits(one, wanted)]
    page = found[: wanted.limit]
    return TaskPage(
        tasks=tuple(task_line(one, backend.redact) for one in page),
        next_cursor=_cursor(page[-1]) if len(found) > wanted.limit else None,
        unreadable=register.unreadable,
    )


@router.post("", status_code=status.HTTP_201_CREATED)
async def submit(
    body: SubmissionBody, response: Response, backend: TheBackend, register: TheRegister, by: By
) -> TaskView:
    """Take a ticket in."""
    if body.at is not None and body.at <= clock.now():
        raise SubmissionRefused(
            f"the time {body.at.isoformat()} is over; give one to come, or leave `at` out to begin at once"
        )
    after = tuple([await register.find_id(name) for name in body.after])
    submission = Submission(**{**dict(body), "after": after})
    accepted = await backend.accept(submission, by)
    response.headers["Location"] = f"/api/tasks/{accepted.id}"
    return task_view(backend.supervisor.tasks.get(accepted.id, accepted), backend.redact)


@router.get("/{name}")
async def task(task: TheTask, backend: TheBackend) -> TaskView:
    """One task, whole."""
    return task_view(task, backend.redact)


@router.get("/{name}/why")
async def why(task: TheTask, backend: TheBackend) -> WhyView:
    """What keeps the task where it is, and what would move it."""
    found = backend.supervisor.why(task)
    where = {"task": task.id, "status": task.status, "stage": task.stage}
    still = {"paused": task.is_paused, "blocked_by": task.agent.blocked_by}
    return to_view(WhyView, {**where, **still, "facts": found.facts, "next": found.next}, backend.redact)


@router.patch("/{name}")
async def change(task: TheTask, backend: TheBackend, by: By, body: ChangeBody) -> TaskView:
    """Change how urgent the task is and what it may cost; one that the old caps held goes on if the new ones let it."""
    now = backend.supervisor.tasks.get(task.id)
    if now is None:
        raise InvalidTransition("change", task.status, task.stage, allowed(task))
    if body.priority is not None:
        event = PriorityChanged(at=clock.now(), priority=body.priority, by=by)
        now = await backend.supervisor.request(task.id, event)
    if body.caps is not None:
        caps = replace(now.policy.caps, **body.caps.model_dump(exclude_unset=True))
        now = await backend.supervisor.request(task.id, CapsChanged(at=clock.now(), caps=caps, by=by))
    return task_view(now, backend.redact)


@router.post("/{name}/submit")
async def send_off(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Send a draft off."""
    event = DraftSubmitted(at=clock.now(), by=by, held=backend.supervisor.account.paused_by is not None)
    return await _asked(backend, task, "submit", event, lambda now: now.status is TaskStatus.PENDING)


@router.post("/{name}/retry")
async def retry(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Try the stage of a blocked task anew, every try renewed."""
    event = RetryRequested(at=clock.now(), by=by)
    return await _asked(backend, task, "retry", event, lambda _: False)


@router.post("/{name}/pause")
async def pause(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Let the task stand still until it is resumed."""
    event = PauseRequested(at=clock.now(), by=by)
    return await _asked(backend, task, "pause", event, lambda now: now.agent.blocked_by is PauseReason.USER)


@router.post("/{name}/resume")
async def resume(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Let a paused task go on."""
    event = ResumeRequested(at=clock.now(), by=by)
    return await _asked(backend, task, "resume", event, lambda now: now.status is TaskStatus.IN_PROGRESS)


@router.post("/{name}/cancel")
async def cancel(task: TheTask, backend: TheBackend, by: By) -> TaskView:
    """Give the task up."""
    event = CancelRequested(at=clock.now(), by=by)
    return await _asked(backend, task, "cancel", event, lambda now: now.status is TaskStatus.CANCELLED)


async def _asked(
    backend: Backend, task: Task, action: str, event: Event, is_so_already: Callable[[Task], bool]
) -> TaskView:
    """Ask it of the task. What is so already is granted: to ask twice is no mistake."""
    supervisor = backend.supervisor
    try:
        if task.id not in supervisor.tasks:
            require(action, task)
        task = await supervisor.request(task.id, event)
    except InvalidTransition:
        task = supervisor.tasks.get(task.id, task)
        if not is_so_already(task):
            raise
    return task_view(task, backend.redact)


def _fits(one: Task | TaskSummary, wanted: TaskFilter) -> bool:
    if wanted.cursor is not None and _cursor(one) >= wanted.cursor:
        return False
    if wanted.repo is not None and (one.source.repo if isinstance(one, Task) else one.repo) != str(wanted.repo):
        return False
    if wanted.status:
        return one.status in wanted.status
    return wanted.all or one.status is not TaskStatus.ARCHIVED


def _cursor(one: Task | TaskSummary) -> str:
    return "_".join(task_age(one))
