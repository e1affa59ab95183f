"""Every task there is, by whatever people call it: those at work as they are now, those that ended as a line each.

Ended tasks are read from disk once, when somebody first asks; from then on the supervisor tells of each new one.
"""

import asyncio
import re
import sys
from dataclasses import replace

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.errors import NoSuchTask
from orchestrator.formats.codec import stamp
from orchestrator.server.backend import Backend
from orchestrator.server.problems import Ambiguous
from orchestrator.storage.records import TaskSummary, UncommittedTask, summary_of

NAMED = 20
"""How many unreadable folders are told of one by one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_WHOLE_ID = re.compile(r".+\d{8}_\d{6}(-\d+)?")


class TaskIndex:
    """Finds tasks; used from the supervisor's event loop."""

    def __init__(self, backend: Backend) -> None:
        self.unreadable: tuple[str, ...] = ()
        self._backend = backend
        self._ended: dict[str, TaskSummary] = {}
        self._read = False
        self._reading = asyncio.Lock()
        backend.supervisor.listen(self._decided)

    async def everything(self) -> list[TaskSummary | Task]:
        """All tasks, newest first; a task at work is given whole."""
        await self._read_ended()
        live = self._backend.supervisor.tasks
        every: list[TaskSummary | Task] = [
            *live.values(),
            *(line for id_, line in self._ended.items() if id_ not in live),
        ]
        return sorted(every, key=task_age, reverse=True)

    async def find(self, name: str) -> Task:
        """The task that an id, a unique beginning of one, or a ticket key means. Raises NoSuchTask, Ambiguous."""
        task_id = await self.find_id(name)
        live = self._backend.supervisor.tasks.get(task_id)
        return live or (await asyncio.to_thread(self._backend.store.load, task_id)).task

    def forget(self, task_id: str) -> None:
        """Name a deleted task no more."""
        self._ended.pop(task_id, None)

    async def find_id(self, name: str) -> str:
        """The id alone, without reading the task. Raises NoSuchTask, Ambiguous."""
        supervisor = self._backend.supervisor
        if name in supervisor.tasks or name in supervisor.ended:
            return name
        if not _NAME.fullmatch(name):
            raise NoSuchTask(f"{name!r:.60} is neither a task's id nor a ticket's key; `orchestrator tasks` lists all")
        if self._backend.store.holds(name):
            return name
        every = await self.everything()
        found = [one for one in every if _key(one) == name] or [one for one in every if _means(name, one.id)]
        at_work = [one for one in found if isinstance(one, Task) and _key(one) == name]
        for choice in (found, at_work):
            if len(choice) == 1:
                return choice[0].id
        if found:
            raise Ambiguous(name, [one.id for one in found[:10]])
        raise NoSuchTask(f"there is no task {name}; `orchestrator tasks` lists all")

    async def _read_ended(self) -> None:
        async with self._reading:
            if not self._read:
                lines, self.unreadable = await asyncio.to_thread(self._from_disk)
                self._ended = lines | self._ended
                self._read = True

    def _from_disk(self) -> tuple[dict[str, TaskSummary], tuple[str, ...]]:
        lines, unreadable = {}, []
        for found in self._backend.store.summaries():
            if isinstance(found, TaskSummary):
                repo, stage = sys.intern(found.repo), sys.intern(found.stage)
                lines[found.id] = replace(found, repo=repo, stage=stage, files=frozenset())
            elif not isinstance(found, UncommittedTask):
                unreadable.append(str(found))
        beyond = len(unreadable) - NAMED
        return lines, tuple(unreadable[:NAMED] + [f"and {beyond} more"] * (beyond > 0))

    def _decided(self, task: Task, _: Event) -> None:
        if task.id not in self._backend.supervisor.tasks:
            self._ended[task.id] = summary_of(task)


def task_age(one: TaskSummary | Task) -> tuple[str, str]:
    """What tasks are ordered by: when they came in, and their id."""
    return (one.created_at if isinstance(one, TaskSummary) else stamp(one.timing.created_at)), one.id


def _means(name: str, task_id: str) -> bool:
    """Whether an id or the beginning of one means this task; a whole id never means another, as `-2` of the second."""
    return task_id == name or (task_id.startswith(name) and not _WHOLE_ID.fullmatch(name))


def _key(one: TaskSummary | Task) -> str:
    return one.ticket if isinstance(one, TaskSummary) else one.ticket.key
