"""The account that all agents share: its usage windows, and the hours in which the service does not answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from orchestrator.core.events.agent_events import ErrorClass, Limit, LimitStatus
from orchestrator.core.task.usage_limits import FAMILIES, applies_to
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, span

TOKENS_A_SECOND = 300.0
"""What an agent at work uses on average."""
NEARLY = 0.9
ABSURD_RESET = 4_000_000_000
"""Epoch seconds, long after anybody who waits for it."""


@dataclass(slots=True, kw_only=True)
class _Window:
    """One usage window; it begins with the first call after a reset."""

    name: str
    span: timedelta
    capacity: float
    used: float = 0.0
    resets_at: datetime | None = None

    def at(self, now: datetime) -> "_Window":
        """The window as it is now."""
        if self.resets_at is None or now >= self.resets_at:
            self.used, self.resets_at = 0.0, now + self.span
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A time in which calls fail."""

    begins: datetime
    ends: datetime
    error: ErrorClass


class SimulatedAccount:
    """Counts tokens in windows; `places` agents at work all the time use up about twice what the windows allow."""

    def __init__(self, dice: Random, places: int, outages: Sequence[Outage]) -> None:
        self._dice, self._outages = dice, outages
        rate = TOKENS_A_SECOND * places
        self._windows = [
            _Window(name="five_hour", span=timedelta(hours=5), capacity=rate * 5 * HOUR * 0.6),
            _Window(name="seven_day", span=timedelta(days=7), capacity=rate * 7 * DAY * 0.5),
            *(
                _Window(name=f"seven_day_{family}", span=timedelta(days=7), capacity=rate * 7 * DAY * 0.1)
                for family in FAMILIES
            ),
        ]

    def outage(self, now: datetime) -> ErrorClass | None:
        """How a call fails now for no fault of the account's."""
        return next((one.error for one in self._outages if one.begins <= now < one.ends), None)

    def call(self, model: str, tokens: int, now: datetime) -> Limit | None:
        """Use tokens of every window that binds the model; news of the tightest one, if there is any."""
        binding = [one.at(now) for one in self._windows if self._binds(one.name, model)]
        full = next((one for one in binding if one.used >= one.capacity), None)
        if full is not None:
            return self._told(full, LimitStatus.REJECTED)
        for one in binding:
            one.used += tokens
        tight = max(binding, key=lambda one: one.used / one.capacity)
        return self._told(tight, LimitStatus.WARNING) if tight.used / tight.capacity > NEARLY else None

    def _binds(self, window: str, model: str) -> bool:
        of_family = any(window.endswith(f"_{family}") for family in FAMILIES)
        return applies_to(window, model) and not (of_family and not any(family in model for family in FAMILIES))

    def _told(self, window: _Window, status: LimitStatus) -> Limit:
        """A window as the CLI tells of it; now and then without its reset, or with one that cannot be meant."""
        resets_at = int(window.resets_at.timestamp()) if window.resets_at else None
        if status is LimitStatus.REJECTED:
            luck = self._dice.random()
            if luck < 0.1:
                resets_at = None
            elif luck < 0.15 and resets_at is not None:
                resets_at -= int(8 * HOUR)
            elif luck < 0.2:
                resets_at = ABSURD_RESET
        nameless = self._dice.random() < 0.1
        return Limit(
            status=status,
            window=None if nameless else window.name,
            resets_at=resets_at,
            utilization=min(1.0, window.used / window.capacity),
            overage=False,
        )


def outages(dice: Random, odds: Probabilities, begins: datetime, days: float) -> tuple[Outage, ...]:
    """The service's bad hours of some days; the median lasts 14 minutes."""
    kinds = (ErrorClass.THROTTLED, ErrorClass.OVERLOADED, ErrorClass.SERVER)
    return tuple(
        Outage(begins=at, ends=at + timedelta(seconds=span(dice, 14 * MINUTE)), error=dice.choice(kinds))
        for at in (
            begins + timedelta(seconds=dice.uniform(0, days * DAY)) for _ in range(round(odds.walls_a_day * days))
        )
    )
