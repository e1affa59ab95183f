"""What is known of the account that all agents work on: its usage windows, and what tasks that have ended had cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from orchestrator.core.budget import NOTHING_SPENT, Spending
from orchestrator.core.limits import Windows, window_of
from orchestrator.core.stream.neutral import Limit


@dataclass(slots=True)
class Account:
    """Changed by the supervisor's loop alone."""

    windows: Windows = field(default_factory=dict)
    _by_day: dict[str, Spending] = field(default_factory=dict)

    def hear(self, limit: Limit, now: datetime) -> bool:
        """Take in news of a usage window; whether that says something else than before."""
        name = limit.window or "unknown"
        old, new = self.windows.get(name), window_of(limit, now)
        self.windows = {**self.windows, name: new}
        return old is None or (old.status, old.resets_at) != (new.status, new.resets_at)

    def remember(self, spent: Mapping[str, Spending]) -> None:
        """Take in what a task that has ended had cost on which days."""
        for day, spending in spent.items():
            self._by_day[day] = self.spent_on(day) + spending

    def spent_on(self, day: str) -> Spending:
        """What tasks that have ended had cost on a day, as 2026-11-21."""
        return self._by_day.get(day, NOTHING_SPENT)
