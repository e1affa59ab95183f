"""What people ask of many tasks: pause, resume or drain all, or of some by name whatever can be asked of one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.events import Event, PauseRequested, ResumeRequested
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.daemon.access.verbs import Verb
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.daemon.services.user_requests import UserRequestService
from orchestrator.errors import InvalidTransition, NoSuchTask, OrchestratorError
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor

log = structlog.get_logger()

AT_A_TIME = 8
"""How many of them are worked on at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is asked of each task, and by whom.

    `priority` and `caps`, by their names, belong to `change`, `force` to `delete`.
    """

    verb: Verb
    by: str
    priority: Priority | None = None
    caps: Mapping[str, Any] | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one named task: how it is now, unless it is deleted, or the error that refused it."""

    name: str
    task: Task | None = None
    error: OrchestratorError | OSError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchService:
    """The use case of several named tasks: each is answered for itself."""

    tasks: TaskService
    requests: UserRequestService

    async def ask(self, names: Sequence[str], ask: Ask) -> list[Outcome]:
        """Ask the same of every task; return what became of each, in the order of their names.

        Names of the same task are taken one after another.
        """
        found = [await self._find(name) for name in names]
        limit, turns = asyncio.Semaphore(AT_A_TIME), dict[str, asyncio.Lock]()

        async def done(one: Outcome) -> Outcome:
            if one.task is None:
                return one
            async with turns.setdefault(one.task.id, asyncio.Lock()), limit:
                try:
                    return Outcome(name=one.name, task=await _DO[ask.verb](self, one.task.id, ask))
                except (OrchestratorError, OSError) as error:
                    return Outcome(name=one.name, error=error)

        return await asyncio.gather(*map(done, found))

    async def _find(self, name: str) -> Outcome:
        try:
            return Outcome(name=name, task=await self.tasks.find(name))
        except (OrchestratorError, OSError) as error:
            return Outcome(name=name, error=error)


_DO: Mapping[Verb, Callable[[BatchService, str, Ask], Awaitable[Task | None]]] = {
    Verb.APPROVE: lambda batch, name, ask: batch.requests.approve_all(name, ask.by),
    Verb.ARCHIVE: lambda batch, name, ask: batch.tasks.archive_task(name, ask.by),
    Verb.CANCEL: lambda batch, name, ask: batch.tasks.cancel(name, ask.by),
    Verb.CHANGE: lambda batch, name, ask: batch.tasks.change(name, ask.priority, ask.caps, ask.by),
    Verb.DELETE: lambda batch, name, ask: batch.tasks.delete_task(name, ask.by, force=ask.force),
    Verb.EXECUTE: lambda batch, name, ask: batch.tasks.execute(name, ask.by),
    Verb.PAUSE: lambda batch, name, ask: batch.tasks.pause(name, ask.by),
    Verb.RESUME: lambda batch, name, ask: batch.tasks.resume(name, ask.by),
    Verb.RETRY: lambda batch, name, ask: batch.tasks.retry(name, ask.by),
    Verb.REVIEW: lambda batch, name, ask: batch.tasks.review(name, ask.by),
    Verb.START: lambda batch, name, ask: batch.tasks.start(name, ask.by),
    Verb.SUBMIT: lambda batch, name, ask: batch.tasks.submit_draft(name, ask.by),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkService:
    """The use cases of all tasks together; each returns the tasks that it changed. Raises NotCommitted."""

    supervisor: Supervisor
    inbox: Inbox
    clock: Callable[[], datetime]

    async def pause_all(self, by: str) -> list[Task]:
        """Pause every task, and every one submitted later, until `resume_all`.

        Pending tasks are paused first, so that none of them takes a slot that becomes free.
        """
        self.supervisor.control.pause_all(by)
        tasks = [task for task in self.supervisor.tasks.values() if "pause" in allowed(task)]
        tasks.sort(key=lambda task: task.status is not TaskStatus.PENDING)
        return await self._request_all(tasks, PauseRequested(at=self.clock(), by=by))

    async def resume_all(self, by: str) -> list[Task]:
        """Resume every task that waits for a person's word, and admit tasks again after a drain or a refusal."""
        live = self.supervisor.tasks.values()
        tasks = [task for task in live if task.agent.blocked_by is PauseReason.USER or task.waits_for_word]
        self.supervisor.control.resume_admission()
        return await self._request_all(tasks, ResumeRequested(at=self.clock(), by=by))

    async def drain(self, by: str) -> list[Task]:
        """Admit no more tasks and end every agent, keeping its session, until a restart or `resume_all`."""
        log.info("drained", by=by)
        before = dict(self.supervisor.tasks)
        self.supervisor.control.stop_agents()
        await self.inbox.settled()
        now = [self.supervisor.tasks.get(task.id, task) for task in before.values()]
        return [task for task in now if task is not before[task.id]]

    async def _request_all(self, tasks: Iterable[Task], event: Event) -> list[Task]:
        """Have the event decided for each task; one that changed meanwhile and cannot take it is left out."""
        requests = (self.inbox.request(task.id, event) for task in tasks)
        answers = await asyncio.gather(*requests, return_exceptions=True)
        await self.inbox.settled()
        changed: list[Task] = []
        for answer in answers:
            if isinstance(answer, Task):
                changed.append(answer)
            elif not isinstance(answer, InvalidTransition | NoSuchTask):
                raise answer
        return changed
