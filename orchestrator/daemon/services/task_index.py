"""Which tasks exist, and which one a name means: live tasks as they are now, ended ones as one line each.

Ended tasks are read from disk once, at the first request that needs them; from then on each decision that ends a task
adds it.
"""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.errors import AmbiguousName
from orchestrator.errors import NoSuchTask
from orchestrator.formats.codec import stamp
from orchestrator.storage.records import StoreError, TaskSummary, UncommittedTask, UnreadableTask, summary_of
from orchestrator.supervisor.protocols import Store
from orchestrator.supervisor.supervisor import Supervisor

MOST_NAMED = 20
"""How many unreadable folders are named one by one."""

SHORTEST_PART = 3
"""Characters of an id that its task is found by, unless they are its first."""

ListedTask = Task | TaskSummary

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_WHOLE_ID = re.compile(r".+\d{8}_\d{6}(-\d+)?")


class TaskIndex:
    """Finds tasks; used from the supervisor's event loop, which must call `on_decision` after each decision."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self.unreadable: tuple[str, ...] = ()
        self._store, self._supervisor = store, supervisor
        self._ended: dict[str, TaskSummary] = {}
        self._is_read = False
        self._reading = asyncio.Lock()
        self._without_run: dict[str, asyncio.Event] = {}

    async def all_tasks(self) -> list[ListedTask]:
        """Return all tasks, newest first; live ones whole."""
        await self._read_ended()
        live = self._supervisor.tasks | {task.id: task for task in self._supervisor.unreadable}
        every: list[ListedTask] = [*live.values(), *(line for id_, line in self._ended.items() if id_ not in live)]
        return await asyncio.to_thread(sorted, every, key=task_age, reverse=True)

    async def find(self, name: str) -> Task:
        """Return the task that a name means, as `find_id` does. Raises NoSuchTask, AmbiguousName."""
        return await self.task(await self.find_id(name))

    async def task(self, task_id: str) -> Task:
        """Return the task of exactly this id. Raises NoSuchTask, also if it is deleted meanwhile."""
        if live := self._supervisor.tasks.get(task_id) or self._supervisor.unreadable.get(task_id):
            return live
        try:
            return (await asyncio.to_thread(self._store.load, task_id)).task
        except (StoreError, OSError):
            if self._store.holds(task_id):
                raise
            raise NoSuchTask(f"there is no task {task_id} any more; `orchestrator tasks` lists all") from None

    async def find_id(self, name: str) -> str:
        """Return the id of the task that a name means, without reading the task: its id, its ticket's key, or a part
        of the id that no other has; its beginning counts before its end, and that before its middle.

        Raises NoSuchTask, AmbiguousName.
        """
        if name in self._supervisor.tasks or name in self._supervisor.ended:
            return name
        if not _NAME.fullmatch(name):
            raise NoSuchTask(f"{name!r:.60} is neither a task id nor a ticket key; `orchestrator tasks` lists all")
        if self._store.holds(name):
            return name
        every = await self.all_tasks()
        found = [one for one in every if _ticket_key(one) == name] or _with_part(name, every)
        live = [one for one in found if isinstance(one, Task) and _ticket_key(one) == name]
        for choice in (found, live):
            if len(choice) == 1:
                return choice[0].id
        if found:
            raise AmbiguousName(name, [one.id for one in found[:10]])
        raise NoSuchTask(f"there is no task {name}; `orchestrator tasks` lists all")

    async def wait_for_end(self, task_id: str) -> None:
        """Wait until no process of the task is left."""
        task = self._supervisor.tasks.get(task_id)
        if task is not None and task.run is not None:
            await self._without_run.setdefault(task_id, asyncio.Event()).wait()

    def add_ended(self, task: Task) -> None:
        """List a task that has ended without a decision."""
        self._ended[task.id] = summary_of(task)

    def forget(self, task_id: str) -> None:
        """Drop a deleted task."""
        self._ended.pop(task_id, None)

    def on_decision(self, task: Task, _: Event) -> None:
        """Keep the line of a task that has just ended, and wake who waits for its processes."""
        if task.run is None and task.id in self._without_run:
            self._without_run.pop(task.id).set()
        if task.id not in self._supervisor.tasks:
            self.add_ended(task)

    async def _read_ended(self) -> None:
        async with self._reading:
            if not self._is_read:
                lines, self.unreadable = await asyncio.to_thread(self._from_disk)
                self._ended = lines | self._ended
                self._is_read = True

    def _from_disk(self) -> tuple[dict[str, TaskSummary], tuple[str, ...]]:
        lines, unreadable = {}, []
        for found in self._store.summaries():
            if isinstance(found, TaskSummary):
                repo, stage, pipeline = map(sys.intern, (found.repo, found.stage, found.pipeline))
                lines[found.id] = replace(found, repo=repo, stage=stage, pipeline=pipeline, files=frozenset())
            elif isinstance(found, UnreadableTask) and found.task_id in self._supervisor.unreadable:
                continue
            elif not isinstance(found, UncommittedTask):
                unreadable.append(str(found))
        beyond = len(unreadable) - MOST_NAMED
        return lines, tuple(unreadable[:MOST_NAMED] + [f"and {beyond} more"] * (beyond > 0))


def task_age(one: ListedTask) -> tuple[str, str]:
    """Return the sort key of a task in lists: when it was created, then its id."""
    return (one.created_at if isinstance(one, TaskSummary) else stamp(one.timing.created_at)), one.id


def _with_part(name: str, tasks: Sequence[ListedTask]) -> list[ListedTask]:
    """Return the tasks whose ids begin so; else those that end so; else those that have it anywhere, in any case.

    A whole id means only itself: `…_220000` is not `…_220000-2`. A part of a parent's id does not mean its children,
    whose ids go on with a dot.
    """
    if _WHOLE_ID.fullmatch(name):
        return []
    by_id = {one.id: one for one in tasks}
    low = name.casefold()
    tiers: list[Callable[[str], bool]] = [lambda task_id: task_id.startswith(name)]
    if len(name) >= SHORTEST_PART:
        tiers += [lambda task_id: task_id.casefold().endswith(low), lambda task_id: low in task_id.casefold()]
    for fits in tiers:
        found = [task_id for task_id in by_id if fits(task_id)]
        if found:
            return [by_id[task_id] for task_id in found if not any(task_id.startswith(f"{one}.") for one in found)]
    return []


def _ticket_key(one: ListedTask) -> str:
    return one.ticket if isinstance(one, TaskSummary) else one.ticket.key
