"""The account that all agents share: its usage windows, and the outages of the service."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from orchestrator.core.events.agent_events import ErrorClass, Limit, LimitStatus
from orchestrator.core.task.usage_limits import FAMILIES, applies_to
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, random_duration

TOKENS_A_SECOND = 300.0
"""The average usage of an active agent."""
WARNING_SHARE = 0.9
"""The used share of a window above which the service warns."""
ABSURD_RESET = 4_000_000_000
"""Epoch seconds, decades away: a reset that must not be believed."""


@dataclass(slots=True, kw_only=True)
class _Window:
    """One usage window; it starts with the first call after a reset."""

    name: str
    span: timedelta
    capacity: float
    used: float = 0.0
    resets_at: datetime | None = None

    def at(self, now: datetime) -> "_Window":
        """Return the window itself, restarted if its reset has passed."""
        if self.resets_at is None or now >= self.resets_at:
            self.used, self.resets_at = 0.0, now + self.span
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A period in which calls fail."""

    start: datetime
    end: datetime
    error: ErrorClass


class SimulatedAccount:
    """Counts tokens in windows; `places` agents that never pause would use about twice what the windows allow."""

    def __init__(self, rng: Random, places: int, outages: Sequence[Outage]) -> None:
        self._rng, self._outages = rng, outages
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
        """Return the error with which calls fail now because of an outage, or None."""
        return next((one.error for one in self._outages if one.start <= now < one.end), None)

    def call(self, model: str, tokens: int, now: datetime) -> Limit | None:
        """Use tokens of the windows that apply to the model; return the report about the fullest window, if any."""
        applying = [one.at(now) for one in self._windows if self._applies(one.name, model)]
        full = next((one for one in applying if one.used >= one.capacity), None)
        if full is not None:
            return self._limit(full, LimitStatus.REJECTED)
        for one in applying:
            one.used += tokens
        fullest = max(applying, key=lambda one: one.used / one.capacity)
        return self._limit(fullest, LimitStatus.WARNING) if fullest.used / fullest.capacity > WARNING_SHARE else None

    def _applies(self, window: str, model: str) -> bool:
        of_family = any(window.endswith(f"_{family}") for family in FAMILIES)
        return applies_to(window, model) and not (of_family and not any(family in model for family in FAMILIES))

    def _limit(self, window: _Window, status: LimitStatus) -> Limit:
        """Return a window as the CLI reports it; sometimes without its reset or name, or with an implausible reset."""
        resets_at = int(window.resets_at.timestamp()) if window.resets_at else None
        if status is LimitStatus.REJECTED:
            draw = self._rng.random()
            if draw < 0.1:
                resets_at = None
            elif draw < 0.15 and resets_at is not None:
                resets_at -= int(8 * HOUR)
            elif draw < 0.2:
                resets_at = ABSURD_RESET
        unnamed = self._rng.random() < 0.1
        return Limit(
            status=status,
            window=None if unnamed else window.name,
            resets_at=resets_at,
            utilization=min(1.0, window.used / window.capacity),
            overage=False,
        )


def outages(rng: Random, probabilities: Probabilities, start: datetime, days: float) -> tuple[Outage, ...]:
    """Return the random outages of some days; their median is 14 minutes."""
    kinds = (ErrorClass.THROTTLED, ErrorClass.OVERLOADED, ErrorClass.SERVER)
    return tuple(
        Outage(start=at, end=at + timedelta(seconds=random_duration(rng, 14 * MINUTE)), error=rng.choice(kinds))
        for at in (
            start + timedelta(seconds=rng.uniform(0, days * DAY))
            for _ in range(round(probabilities.outages_per_day * days))
        )
    )
