"""What limits work now: the account's usage windows, the day's budget, and the tasks that wait for them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.schedule import admission
from orchestrator.core.schedule.admission import SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import ADMISSION_PAUSES
from orchestrator.core.schedule.run_windows import RunWindowState, states_of
from orchestrator.core.schedule.why import Why, explain
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import Task
from orchestrator.core.task.usage_limits import ActiveLimit, Windows, active_limits, as_of
from orchestrator.daemon.services.errors import NoSuchWindow
from orchestrator.redaction.display import escape_text
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedTask:
    """A task that a limit keeps from continuing, and until when, if that is known."""

    task: Task
    why: Why
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsReport:
    """Everything that limits work now: the account's windows as they stand, those that are used up, the day's budget.

    `places_now` are the slots while a window is nearly used up.
    """

    snapshot: SchedulerSnapshot
    windows: Windows
    active: tuple[ActiveLimit, ...]
    places_now: int
    spent_today: Spending
    day_used_up: str | None
    run_windows: tuple[RunWindowState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitService:
    """The use cases of usage limits."""

    supervisor: Supervisor
    inbox: Inbox

    def report(self) -> LimitsReport:
        """Return what limits work now."""
        snapshot = self.supervisor.snapshot()
        return LimitsReport(
            snapshot=snapshot,
            windows={name: as_of(window, snapshot.now) for name, window in snapshot.windows.items()},
            active=tuple(_active_limits(snapshot)),
            places_now=admission.places(snapshot),
            spent_today=admission.spent_today(snapshot),
            day_used_up=admission.day_used_up(snapshot),
            run_windows=states_of(snapshot.capacity.windows, snapshot.now),
        )

    async def limited_tasks(self, report: LimitsReport, most: int | None = None) -> tuple[LimitedTask, ...]:
        """Return the tasks that a limit of a report keeps from continuing, the first so many of them."""
        return await asyncio.to_thread(lambda: tuple(islice(_limited_tasks(report.snapshot), most)))

    async def forget(self, window: str | None, by: str) -> LimitsReport:
        """Forget that a usage window, or any, is used up: after changing the account or buying more usage.

        Tasks that met it try again. Returns what limits work after that. Raises NoSuchWindow.
        """
        snapshot = self.supervisor.snapshot()
        if window is not None and window not in snapshot.windows and not admission.tasks_at_limit(snapshot, window):
            known = ", ".join(escape_text(name) for name in snapshot.windows) or "none"
            raise NoSuchWindow(f"no usage window {escape_text(window)} is known; known: {known}")
        self.supervisor.forget_limits(window, by)
        await self.inbox.settled()
        return self.report()


def _active_limits(snapshot: SchedulerSnapshot) -> Iterator[ActiveLimit]:
    """Yield the limits that were announced, and one that a task met unannounced or that only a person can end."""
    yield from active_limits(snapshot.windows, snapshot.now, snapshot.capacity.limit_margin)
    met = admission.account_limit(snapshot)
    if met is not None:
        yield ActiveLimit(window=f"hit by {met.id}", until=met.retry_at)


def _limited_tasks(snapshot: SchedulerSnapshot) -> Iterator[LimitedTask]:
    among = snapshot.tasks.held if snapshot.is_unrestricted else snapshot.tasks
    return (_limited(task, snapshot) for task in among if _is_limited(task, snapshot))


def _limited(task: Task, snapshot: SchedulerSnapshot) -> LimitedTask:
    if closed := snapshot.closed(task):
        return LimitedTask(task=task, why=explain(task, snapshot), until=closed.until)
    limit = admission.active_limit_before(task, snapshot)
    announced = limit.until if limit else None
    until = task.retry_at if task.waits_for_service and task.retry_at else announced
    own = cap_reached(task) is not None or admission.shared_limit(task, snapshot) is not None
    if until is None and not own and admission.day_used_up(snapshot):
        until = admission.next_day(snapshot.now)
    return LimitedTask(task=task, why=explain(task, snapshot), until=until)


def _is_limited(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether a limit, the service or a budget keeps the task waiting, even one that only waits for a slot."""
    if task.is_paused and task.agent.blocked_by in ADMISSION_PAUSES:
        return True
    may_begin = task.wants_slot and admission.may_begin(task, snapshot)
    return may_begin and admission.block_reason(task, snapshot) is not None
