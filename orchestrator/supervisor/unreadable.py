"""Tasks that cannot be decided about, because their files cannot be read or written: people see them blocked.

Nothing of their folders is changed, because the damage may be the disk's, and pass: the next start looks at them again.
A person repairs the files, recovers the task from what is left of them, or cancels it.
"""

from collections.abc import Iterator
from dataclasses import replace

import structlog

from orchestrator.core.schedule.why import Why
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.storage.records import UnreadableTask
from orchestrator.supervisor.protocols import Executor, Store

log = structlog.get_logger()


class UnreadableTasks:
    """These tasks, as far as they are known; `live` and `ended` are the supervisor's."""

    def __init__(self, live: dict[str, Task], ended: dict[str, TaskStatus], store: Store, executor: Executor) -> None:
        self._live, self._ended, self._store, self._executor = live, ended, store, executor
        self._tasks: dict[str, Task] = {}

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._tasks

    def get(self, task_id: str) -> Task | None:
        """Return one of them."""
        return self._tasks.get(task_id)

    def hold(self, task: Task, reason: str) -> None:
        """Decide no more about a task, show it as blocked for this reason, and kill its processes."""
        log.error("task_unreadable", task=task.id, reason=reason)
        self._live.pop(task.id, None)
        self._ended[task.id] = TaskStatus.BLOCKED
        self._tasks[task.id] = replace(
            task,
            status=TaskStatus.BLOCKED,
            block_reason=reason,
            next_action=NextAction.NOTHING,
            retry_at=None,
            run=None,
            agent=replace(task.agent, status=AgentStatus.FAILED, blocked_by=None, pid=None),
        )
        self._store.release(task.id)
        self._executor.abandon(task)

    def drop(self, task_id: str) -> None:
        """Forget a task, because it can be decided about again, or is gone."""
        if self._tasks.pop(task_id, None) is not None:
            self._ended.pop(task_id, None)

    def refuse(self, task_id: str) -> None:
        """Raise UnreadableTask if the task is one of them."""
        task = self._tasks.get(task_id)
        if task is not None:
            raise UnreadableTask(task_id, f"nothing can be decided about {task_id}: {task.block_reason}")

    def why(self, task: Task) -> Why | None:
        """Return what a person can do about a task, if it is one of them."""
        if task.id not in self._tasks:
            return None
        return Why(
            facts=(task.block_reason or "", "its processes were ended, and its files are left as they are"),
            next=f"orchestrator checkpoints recover {task.id}, repair its files and restart the daemon, or cancel it",
        )
