"""When tasks stood still after they had begun, and for what reason, as their journals tell it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.core.task.agent import PAUSED
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import Json, time_of

KEPT_STOPS = 1000
"""How many stops of a task are kept, the newest ones."""
SLOT, BLOCKED = "slot", "blocked"
"""Reasons of stops beside those for which an agent is paused: no slot is free, and a person must look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A stretch of time in which a task stood still for one reason; `end` is empty while it lasts. Times are stamps."""

    reason: str
    begin: str
    end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStop:
    """For how many seconds and how often a task stood still for a reason, and since when; `is_over` if it went on."""

    task: str
    title: str
    reason: str
    times: int
    seconds: float
    since: datetime
    is_over: bool


@dataclass(slots=True)
class StopLog:
    """The stops of one task."""

    stops: deque[Stop] = field(default_factory=lambda: deque(maxlen=KEPT_STOPS))

    def note(self, at: str, status: TaskStatus, agent_status: Json, blocked_by: Json) -> None:
        """Take note of a decision."""
        reason = _reason(status, agent_status, blocked_by)
        last = self.stops[-1] if self.stops else None
        if last is not None and not last.end:
            if last.reason == reason:
                return
            self.stops[-1] = replace(last, end=at)
        if reason is not None:
            self.stops.append(Stop(reason=reason, begin=at))

    def between(self, since: str, until: str) -> Iterator[Stop]:
        """Yield the stops within a span, cut to it; one that lasts at its end has no end."""
        for one in self.stops:
            if one.begin < until and (not one.end or one.end > since):
                yield replace(one, begin=max(one.begin, since), end="" if one.end >= until else one.end)


def stands_still(task: Task) -> bool:
    """Return whether a task that has begun stands still now, for whatever reason."""
    return _reason(task.status, task.agent.status, None) is not None


def _reason(status: TaskStatus, agent_status: Json, blocked_by: Json) -> str | None:
    if status is TaskStatus.BLOCKED:
        return BLOCKED
    if status.is_final or agent_status not in PAUSED:
        return None
    return blocked_by if isinstance(blocked_by, str) else SLOT


def stops_of(task: str, title: str, stops: Iterable[Stop], until: str) -> Iterator[ReportedStop]:
    """Yield the stops of a task in a span that ends then, those for the same reason as one, the longest first."""
    by_reason: dict[str, list[Stop]] = {}
    for one in stops:
        by_reason.setdefault(one.reason, []).append(one)
    found = [
        ReportedStop(
            task=task,
            title=title,
            reason=reason,
            times=len(several),
            seconds=sum((time_of(one.end or until) - time_of(one.begin)).total_seconds() for one in several),
            since=time_of(several[0].begin),
            is_over=bool(several[-1].end),
        )
        for reason, several in by_reason.items()
    ]
    yield from sorted(found, key=lambda one: -one.seconds)
