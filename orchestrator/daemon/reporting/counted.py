"""What metrics count: decisions, how long each took to reach the disk, and how late the event loop runs."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import Histogram

from orchestrator.core.events.events import AlarmRang, DaemonStarted, Event, PersonTold
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.task import Task, TaskStatus

MOST_NAMES = 50
"""How many pipelines have series of their own."""
OTHER = "other"
COMMIT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""The limits of the histogram of commits: from a fast disk to one that hangs."""
LAG_SECONDS = 1.0
"""Between two looks at how late the event loop runs."""
LAGS_KEPT = 60


def _commit_histogram() -> Histogram:
    text = "How long one decision took to reach the disk."
    return Histogram("orchestrator_journal_commit_seconds", text, buckets=COMMIT_SECONDS, registry=None)


@dataclass(slots=True)
class Counted:
    """What was counted since the daemon's start; used from the supervisor's loop, which calls `on_decision`.

    A task that was there before is counted from its first decision on. `progress_at` is the last decision that was more
    than an alarm or a restart.
    """

    spent: dict[str, Spending] = field(default_factory=dict)
    ended: Counter[TaskStatus] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=lambda: Counter(sent=0, failed=0))
    commits: Histogram = field(default_factory=_commit_histogram)
    progress_at: datetime | None = None
    _known: dict[str, tuple[TaskStatus, Spending]] = field(default_factory=dict)

    def on_decision(self, task: Task, event: Event) -> None:
        """Count what a decision has changed."""
        if isinstance(event, PersonTold):
            self.notices["failed" if event.failure else "sent"] += 1
        if not isinstance(event, AlarmRang | DaemonStarted):
            self.progress_at = event.at
        total = task.spending.total
        unknown = (TaskStatus.DRAFT, NOTHING_SPENT) if task.seq == 1 else (task.status, total)
        status, before = self._known.get(task.id, unknown)
        if task.status is not status and (task.status.is_final or task.status is TaskStatus.BLOCKED):
            self.ended[task.status] += 1
        if total != before:
            name = task.pipeline if task.pipeline in self.spent or len(self.spent) < MOST_NAMES else OTHER
            self.spent[name] = self.spent.get(name, NOTHING_SPENT) + (total - before)
        if task.is_over:
            self._known.pop(task.id, None)
        else:
            self._known[task.id] = (task.status, total)


class LoopLag:
    """How late the event loop ran what was due, in seconds: the worst of the last minute."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=LAGS_KEPT)

    @property
    def worst(self) -> float:
        """The longest delay of the last minute."""
        return max(self._lags)

    async def run(self) -> None:
        """Measure again and again."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self._lags.append(max(0.0, loop.time() - due))
