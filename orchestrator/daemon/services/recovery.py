"""What people ask of a task that cannot be decided about, because its files cannot be read or written."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from orchestrator.core.task.task import Task
from orchestrator.daemon import recovery
from orchestrator.daemon.housekeeping.turns import RemovalTurns
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.startup import take_up
from orchestrator.errors import NoSuchTask
from orchestrator.pipelines.definitions import Definitions
from orchestrator.storage.restore import NothingLost, RestoredTask
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.supervisor import Supervisor

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryService:
    """The use cases of unreadable tasks; both set aside what cannot be read, and raise StoreError and OSError."""

    index: TaskIndex
    supervisor: Supervisor
    store: FolderStore
    definitions: Callable[[], Definitions]
    turns: RemovalTurns
    clock: Callable[[], datetime]

    async def recover(self, name: str) -> RestoredTask:
        """Restore a task from the newest state that is left and go on with it; `name` as for any use case.

        Raises NothingLost if the daemon works on it, NoStateLeft and NoPipelineLeft.
        """
        task_id = await self.index.find_id(name)
        async with self.turns.of(task_id):
            return await self._recover(task_id)

    async def _recover(self, task_id: str) -> RestoredTask:
        if not self.store.holds(task_id):
            raise NoSuchTask(f"there is no task {task_id} any more; `orchestrator tasks` lists all")
        if task_id in self.supervisor.tasks:
            raise NothingLost(f"{task_id} can be read as it is; nothing was changed")
        pipelines = self.definitions().pipelines
        done = await asyncio.to_thread(recovery.recover, self.store, task_id, pipelines, self.clock())
        log.info("task_recovered", task=task_id, source=done.source, set_aside=done.set_aside)
        self.supervisor.unreadable.drop(task_id)
        if not done.task.status.is_final or done.task.run is not None:
            take_up(self.store, self.supervisor, task_id)
        else:
            self.supervisor.ended[task_id] = done.task.status
            self.index.add_ended(done.task)
        return done

    async def cancel(self, task: Task, by: str) -> Task:
        """Cancel an unreadable task, whose processes were ended when it was found to be one."""
        pipelines = self.definitions().pipelines
        done = await asyncio.to_thread(recovery.cancel_unreadable, self.store, task, pipelines, self.clock())
        log.info("unreadable_task_cancelled", task=task.id, by=by)
        self.supervisor.unreadable.drop(task.id)
        self.supervisor.ended[task.id] = done.status
        self.index.add_ended(done)
        return done
