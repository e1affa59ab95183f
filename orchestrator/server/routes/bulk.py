"""What a person may ask of all tasks at once: to stand still, to go on, and to make room for a restart."""

import asyncio
from collections.abc import Iterable

from fastapi import APIRouter

from orchestrator import clock
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.events import Event, PauseRequested, ResumeRequested
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.errors import InvalidTransition, NoSuchTask
from orchestrator.server.backend import Backend
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.routes.tasks import By, TheBackend
from orchestrator.server.schemas.task_views import task_line
from orchestrator.server.schemas.views import ManyView

router = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)


@router.post("/pause")
async def pause_all(backend: TheBackend, by: By) -> ManyView:
    """Let every task stand still, those that wait for a place first, so that nobody takes one that becomes free.

    What is handed in after that stands still as well, until all is resumed.
    """
    backend.supervisor.pause_all(by)
    tasks = [task for task in backend.supervisor.tasks.values() if "pause" in allowed(task)]
    tasks.sort(key=lambda task: task.status is not TaskStatus.PENDING)
    return await _asked(backend, tasks, PauseRequested(at=clock.now(), by=by))


@router.post("/resume")
async def resume_all(backend: TheBackend, by: By) -> ManyView:
    """Let every task go on that a person paused or has to, and take tasks again after a drain or a refusal."""
    known = backend.supervisor.tasks.values()
    tasks = [task for task in known if task.agent.blocked_by is PauseReason.USER or task.waits_for_word]
    backend.supervisor.resume_admission()
    return await _asked(backend, tasks, ResumeRequested(at=clock.now(), by=by))


@router.post("/drain")
async def drain(backend: TheBackend) -> ManyView:
    """Take no more tasks and end every agent, its session kept, until the daemon is started anew or all is resumed."""
    supervisor = backend.supervisor
    before = dict(supervisor.tasks)
    supervisor.stop_agents()
    await supervisor.settled()
    now = [supervisor.tasks.get(task.id, task) for task in before.values()]
    changed = [task for task in now if task is not before[task.id]]
    return ManyView(tasks=tuple(task_line(task, backend.redact) for task in changed))


async def _asked(backend: Backend, tasks: Iterable[Task], event: Event) -> ManyView:
    """The tasks after they were asked; one that changed meanwhile, so that it cannot be asked any more, is left out."""
    requests = (backend.supervisor.request(task.id, event) for task in tasks)
    answers = await asyncio.gather(*requests, return_exceptions=True)
    await backend.supervisor.settled()
    changed: list[Task] = []
    for answer in answers:
        if isinstance(answer, Task):
            changed.append(answer)
        elif not isinstance(answer, InvalidTransition | NoSuchTask):
            raise answer
    return ManyView(tasks=tuple(task_line(task, backend.redact) for task in changed))
