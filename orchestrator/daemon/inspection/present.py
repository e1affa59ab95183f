"""What is at work now, with the last thing that each agent said, and what happens next by itself."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from orchestrator.agents.markers import outside_messages
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.schedule.why import Why, explain
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.history.transcript_windows import WindowQuery, WindowService
from orchestrator.daemon.inspection.attention import AttentionService
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.limits import LimitService
from orchestrator.daemon.services.status import Overview, StatusService, in_order
from orchestrator.errors import NoSuchTask
from orchestrator.supervisor.supervisor import Supervisor

MOST_LINES = 12
"""Agents whose last words are read; each takes a look at the end of its output."""
LONGEST_LINE = 200
"""Characters of an agent's last words that are shown."""
MOST_ALARMS = 8

_SAID = WindowQuery(backward=True, limit=1, kinds=frozenset({"text", "tool", "error", "denied"}))


@dataclass(frozen=True, slots=True)
class AtWork:
    """A live task that needs nobody; `kind` and `said` are the last thing its agent said or did, masked, if any."""

    task: Task
    why: Why
    kind: str
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What is at work: tasks with a slot first, then paused ones, then those that wait, in order.

    Drafts and tasks that need a person are left out, and `more` beyond what was asked for.
    """

    overview: Overview
    tasks: tuple[AtWork, ...]
    more: int


class AlarmKind(StrEnum):
    """What happens at a time by itself."""

    START = "start"
    RETRY = "retry"
    DEFAULT = "default"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Something that happens by itself: a task starts or tries again, a question gets its default, a limit ends."""

    at: datetime
    kind: AlarmKind
    task: Task | None = None
    window: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentService:
    """The use cases of the present."""

    supervisor: Supervisor
    status: StatusService
    attention: AttentionService
    limits: LimitService
    windows: WindowService

    async def at_work(self, most: int) -> Present:
        """Return what is at work, with at most so many tasks."""
        needy = {one.task.id for one in self.attention.list()}
        snapshot = self.supervisor.snapshot()
        tasks = [one for one in in_order(snapshot) if one.id not in needy and one.status is not TaskStatus.DRAFT]
        reasons = await asyncio.to_thread(lambda: [explain(one, snapshot) for one in tasks[:most]])
        said = await self._said(tasks[:most])
        return Present(
            overview=await self.status.overview(0),
            tasks=tuple(
                AtWork(one, why, *said.get(one.id, ("", ""))) for one, why in zip(tasks, reasons, strict=False)
            ),
            more=max(0, len(tasks) - most),
        )

    def alarms(self, most: int = MOST_ALARMS) -> tuple[Alarm, ...]:
        """Return what happens next by itself, the soonest first."""
        snapshot = self.supervisor.snapshot()
        ends = [
            Alarm(at=limit.until, kind=AlarmKind.LIMIT, window=limit.window)
            for limit in self.limits.report().active
            if limit.until is not None
        ]
        found = [*ends, *(alarm for task in snapshot.tasks for alarm in _alarms_of(task))]
        return tuple(sorted((one for one in found if one.at > snapshot.now), key=lambda one: one.at)[:most])

    async def _said(self, tasks: Sequence[Task]) -> dict[str, tuple[str, str]]:
        """Return what the agents that work on tasks said last, by the tasks' ids."""
        speaking = [one for one in tasks if _speaks(one)]
        found = await asyncio.gather(*(self._last_words(one) for one in speaking[:MOST_LINES]))
        return {task.id: said for task, said in zip(speaking, found, strict=False) if said[1]}

    async def _last_words(self, task: Task) -> tuple[str, str]:
        try:
            window = await self.windows.window(task.id, task.agent.attempt, _SAID)
        except (NoSuchFile, NoSuchTask, OSError):  # it is starting, or has just been deleted
            return "", ""
        if not window.entries:
            return "", ""
        entry = window.entries[-1]
        read = outside_messages if entry.kind == "text" else str.splitlines
        lines = await asyncio.to_thread(read, entry.text)
        line = next((line for line in reversed(lines) if line.strip()), "").strip()
        return entry.kind, line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def _speaks(task: Task) -> bool:
    """Whether an agent of the task works now, and not a check."""
    run = task.run
    is_agent = run is not None and run.folder == agent_run_folder(task.agent.attempt)
    return run is not None and is_agent and run.process is ProcessState.RUNNING


def _alarms_of(task: Task) -> Iterator[Alarm]:
    if task.status is TaskStatus.PENDING and task.schedule.start_at is not None:
        yield Alarm(at=task.schedule.start_at, kind=AlarmKind.START, task=task)
    if task.is_active and task.retry_at is not None:
        yield Alarm(at=task.retry_at, kind=AlarmKind.RETRY, task=task)
    for request in task.pending_requests:
        if request.deadline is not None:
            yield Alarm(at=request.deadline, kind=AlarmKind.DEFAULT, task=task)
