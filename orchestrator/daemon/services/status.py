"""How the daemon is, what runs, and which pipelines and roles are declared."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot, account_limit
from orchestrator.core.schedule.run_windows import RunWindowState, states_of
from orchestrator.core.schedule.shared_budget import SharedBudget
from orchestrator.core.schedule.trouble import Trouble
from orchestrator.core.schedule.waits import Wait, count_waits
from orchestrator.core.schedule.why import Why, explain
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.pipelines.definitions import Definitions
from orchestrator.processes.process_stats import own_group
from orchestrator.processes.spec import Usage
from orchestrator.settings.settings import Settings
from orchestrator.supervisor.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that has processes, and what they take of the machine, if that can be read.

    `cgroup` is the control group of their own, empty if they have none.
    """

    task: Task
    usage: Usage | None
    cgroup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    """How the daemon is; sizes in bytes.

    `queue` waits for a slot, `paused` for somebody or something else; `waits` counts tasks by what they wait for.
    `running` are the tasks with processes, and `unreadable` those about which nothing can be decided; `budgets` are
    those that parents share with live children.
    `isolation` says in a line how these are kept apart from the machine.
    `dead_channels` says since when and why channels of notices do not work, `broken_parts` which parts of the daemon
    fail and are begun again.
    """

    health: str
    pid: int
    started_at: datetime
    uptime_seconds: float
    settings: Settings
    isolation: str
    capacity: Capacity
    trouble: str | None
    places_taken: int
    free_bytes: int
    decisions: int
    counts: Mapping[TaskStatus, int]
    queue: tuple[Task, ...]
    paused: tuple[Task, ...]
    unreadable: tuple[Task, ...]
    dead_channels: Mapping[str, str]
    broken_parts: Mapping[str, str]
    running: tuple[RunningTask, ...]
    budgets: tuple[SharedBudget, ...]
    run_windows: tuple[RunWindowState, ...]
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Everything at a glance: live tasks, active ones first, then paused ones, then those that wait, in order.

    `trouble` says why agents cannot work, `waiting` counts all tasks that want a slot, `waits` what tasks wait for,
    `more` those left out; a usage limit ends at `limited_until`.
    """

    health: str
    trouble: str | None
    started_at: datetime
    capacity: Capacity
    places_taken: int
    waiting: int
    waits: tuple[Wait, ...]
    limited_until: datetime | None
    counts: Mapping[TaskStatus, int]
    tasks: tuple[tuple[Task, Why], ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusService:
    """The use cases of the daemon itself; `usage_of` reads /proc and blocks."""

    settings: Callable[[], Settings]
    definitions: Callable[[], Definitions]
    supervisor: Supervisor
    usage_of: Callable[[Task], Usage | None]
    isolation: Callable[[], str]
    dead_channels: Callable[[], Mapping[str, str]]
    broken_parts: Callable[[], Mapping[str, str]]
    started_at: datetime
    clock: Callable[[], datetime]

    def is_draining(self) -> bool:
        """Return whether the daemon admits no more tasks because it stops."""
        return self.supervisor.control.capacity.draining

    def trouble(self) -> Trouble | None:
        """Return why agents cannot work."""
        return self.supervisor.snapshot().trouble

    async def status(self) -> DaemonStatus:
        """Return how the daemon is, who waits and who runs."""
        settings, snapshot = self.settings(), self.supervisor.snapshot()
        tasks = snapshot.tasks
        with_run = [task for task in tasks if task.run]
        running = await asyncio.to_thread(lambda: tuple(map(self._running, with_run)))
        waits = await asyncio.to_thread(count_waits, snapshot)
        return DaemonStatus(
            health=_health(snapshot),
            pid=os.getpid(),
            started_at=self.started_at,
            uptime_seconds=(self.clock() - self.started_at).total_seconds(),
            settings=settings,
            isolation=self.isolation(),
            capacity=snapshot.capacity,
            trouble=snapshot.trouble.reason if snapshot.trouble else None,
            places_taken=sum(task.holds_slot for task in tasks),
            free_bytes=shutil.disk_usage(settings.data_dir).free,
            decisions=self.supervisor.decisions,
            counts=self._counts(snapshot),
            queue=tasks.queue,
            paused=tuple(task for task in tasks if task.is_paused and not task.wants_slot),
            unreadable=tuple(self.supervisor.unreadable),
            dead_channels=self.dead_channels(),
            broken_parts=self.broken_parts(),
            running=running,
            budgets=snapshot.shared_budgets,
            run_windows=states_of(snapshot.capacity.windows, snapshot.now),
            waits=waits,
        )

    async def overview(self, limit: int) -> Overview:
        """Return everything at a glance, with at most `limit` tasks."""
        snapshot = self.supervisor.snapshot()
        limited, tasks = account_limit(snapshot), in_order(snapshot)
        unreadable = [(task, self.supervisor.why(task)) for task in self.supervisor.unreadable]
        explained = await asyncio.to_thread(lambda: tuple((task, explain(task, snapshot)) for task in tasks[:limit]))
        waits = await asyncio.to_thread(count_waits, snapshot)
        return Overview(
            health=_health(snapshot),
            trouble=snapshot.trouble.reason if snapshot.trouble else None,
            started_at=self.started_at,
            capacity=snapshot.capacity,
            places_taken=sum(task.holds_slot for task in tasks),
            waiting=len(snapshot.tasks.queue),
            waits=waits,
            limited_until=limited.retry_at if limited else None,
            counts=self._counts(snapshot),
            tasks=(*unreadable, *explained)[:limit],
            more=max(0, len(unreadable) + len(tasks) - limit),
        )

    def _running(self, task: Task) -> RunningTask:
        return RunningTask(task, self.usage_of(task), own_group(task.agent.pid) if task.agent.pid else "")

    def _counts(self, snapshot: SchedulerSnapshot) -> Mapping[TaskStatus, int]:
        return Counter([*(task.status for task in snapshot.tasks), *self.supervisor.ended.values()])


def _health(snapshot: SchedulerSnapshot) -> str:
    """Return whether tasks can start: ok, draining, pressure, paused, or what keeps every agent from working."""
    capacity = snapshot.capacity
    obstacles = {
        "draining": capacity.draining,
        "pressure": capacity.pressure,
        "paused": capacity.paused_by,
    }
    trouble = snapshot.trouble.kind if snapshot.trouble else "ok"
    return next((name for name, obstacle in obstacles.items() if obstacle), trouble)


def in_order(snapshot: SchedulerSnapshot) -> list[Task]:
    """Return active tasks, paused ones, then those that wait for a slot in the order in which they get one."""
    others = sorted(
        (task for task in snapshot.tasks if not task.wants_slot),
        key=lambda task: (not task.holds_slot, task.timing.created_at, task.id),
    )
    return [*others, *snapshot.tasks.queue]
