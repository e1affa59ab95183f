"""What holds back all tasks, or all new ones: the slots, a shortage of the machine, a drain, a pause by a person."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

import structlog

from orchestrator.core.events.events import PauseRequested, ResumeRequested
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Shortage, ShortOf, tasks_to_freeze, tasks_to_release
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.shared_state import SharedState

log = structlog.get_logger()


class AdmissionControl:
    """Changes what all tasks have in common, and asks the supervisor through its inbox to pause or resume them."""

    def __init__(
        self,
        capacity: Capacity,
        tasks: Mapping[str, Task],
        shared: SharedState,
        inbox: Inbox,
        clock: Callable[[], datetime],
    ) -> None:
        self.capacity = capacity
        self._tasks, self._shared, self._inbox, self._clock = tasks, shared, inbox, clock
        self._short_of: ShortOf | None = None

    def update_pressure(self, shortage: Shortage | None) -> None:
        """Pause tasks while the machine is short of a resource, and resume them when it no longer is."""
        reason = shortage.reason if shortage else None
        holds_all = shortage is not None and shortage.kind is not ShortOf.LOAD
        if (shortage and shortage.kind) != self._short_of:
            (log.warning if shortage else log.info)("pressure_changed", reason=reason)
        self._short_of = shortage.kind if shortage else None
        self.capacity = replace(
            self.capacity, pressure=reason if holds_all else None, busy=None if holds_all else reason
        )
        now = self._clock()
        for task_id in tasks_to_freeze(shortage, self._tasks.values()):
            self._inbox.post(task_id, PauseRequested(at=now, blocked_by=PauseReason.PRESSURE, reason=reason or ""))
        for task_id in tasks_to_release(shortage, self._tasks.values()):
            self._inbox.post(task_id, ResumeRequested(at=now, blocked_by=PauseReason.PRESSURE))
        self._inbox.wake()

    def set_capacity(self, capacity: Capacity) -> None:
        """Schedule with another capacity from now on; tasks beyond it continue."""
        self.capacity = replace(
            capacity, pressure=self.capacity.pressure, busy=self.capacity.busy, draining=self.capacity.draining
        )
        self._inbox.wake()

    def drain(self) -> None:
        """Admit no more tasks."""
        self.capacity = replace(self.capacity, draining=True)

    def pause_all(self, by: str) -> None:
        """Start tasks that are submitted from now on paused, also after a restart, until `resume_admission`."""
        self._shared.pause(by)
        self._inbox.wake()

    def stop_agents(self) -> None:
        """Admit no more tasks and end every agent, keeping its session; the next start resumes them all."""
        self.drain()
        now = self._clock()
        for task_id in self._tasks:
            drained = PauseRequested(at=now, blocked_by=PauseReason.PRESSURE, reason="drained", park=True)
            self._inbox.post(task_id, drained)

    def resume_admission(self) -> None:
        """Admit tasks again after a drain, a pause of all or a refused account; resume what the drain stopped."""
        self.capacity = replace(self.capacity, draining=False)
        self._shared.resume()
        for task_id in () if self.capacity.pressure else tasks_to_release(None, self._tasks.values()):
            self._inbox.post(task_id, ResumeRequested(at=self._clock(), blocked_by=PauseReason.PRESSURE))
        self._inbox.wake()
