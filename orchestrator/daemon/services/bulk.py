"""What people ask of all tasks at once: pause, resume, and stop agents before a restart."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.events import Event, PauseRequested, ResumeRequested
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.errors import InvalidTransition, NoSuchTask
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor


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

    async def drain(self) -> list[Task]:
        """Admit no more tasks and end every agent, keeping its session, until a restart or `resume_all`."""
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
