"""Usage limits of an account: when to resume after one was reached."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zlib import crc32

from orchestrator.core.events.agent_events import Limit
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NO_CAPS, NOTHING_SPENT, Caps, Spending, reached_cap

FIRST_PROBE, LONGEST_PROBE = timedelta(minutes=5), timedelta(hours=1)
LONGEST_BACK_OFF = timedelta(minutes=15)
FARTHEST_RESET = timedelta(days=8)
LAST_SECOND = 4_102_444_800
"""The year 2100 in epoch seconds."""
NAMELESS = "unknown"
"""The name of a window that was reported without a name."""
FAMILIES = ("opus", "sonnet", "haiku", "fable")
"""Words in names of models and, at the end, of windows; an unknown window binds everything."""


def resume_at(resets_at: datetime, at: datetime, margin: float, name: str) -> datetime | None:
    """Return when to resume after a reported reset: `margin` seconds later, or up to twice that.

    `name` spreads tasks that wait for the same reset; by whole milliseconds, as times are stored. None for a reset that
    has passed or is too far away to be true.
    """
    if not at < resets_at <= at + FARTHEST_RESET:
        return None
    return resets_at + timedelta(milliseconds=int(1000 * margin * (1 + crc32(name.encode()) / 2**32)))


def probe_at(at: datetime, hits: int) -> datetime:
    """Return when to try again if no reset is known: the pause doubles with every hit in a row, up to an hour."""
    return at + min(FIRST_PROBE * (1 << min(hits - 1, 10)), LONGEST_PROBE)


def back_off(at: datetime, waits: int, first: float) -> datetime:
    """Return when to try a service again that does not answer: after `first` seconds, doubled up to a quarter hour.

    Outages of a quarter of an hour and more happen, so this never gives up.
    """
    return at + min(timedelta(seconds=first) * (1 << min(waits - 1, 20)), LONGEST_BACK_OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was last reported about a usage window; `status` is allowed, allowed_warning or rejected.

    `utilization` goes from 0 to 1.
    """

    status: str
    resets_at: datetime | None = None
    utilization: float | None = None
    overage: bool = False
    seen_at: datetime


Windows = Mapping[str, Window]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLimit:
    """A usage window that is used up, and when turns may begin again; without a time only a person can allow that."""

    window: str
    until: datetime | None


def active_limits(windows: Windows, now: datetime, margin: float, model: str | None = None) -> tuple[ActiveLimit, ...]:
    """Return the windows that are used up now, the longest first; only those that apply to the model, if given."""
    found = [
        (window.resets_at + timedelta(seconds=margin), name)
        for name, window in windows.items()
        if window.status == "rejected" and window.resets_at is not None
        if window.resets_at <= window.seen_at + FARTHEST_RESET
        if model is None or applies_to(name, model)
    ]
    return tuple(ActiveLimit(window=name, until=until) for until, name in sorted(found, reverse=True) if until > now)


def is_known(windows: Windows, name: str | None) -> bool:
    """Return whether the state of a window is known; it is not if the window is used up without a plausible reset."""
    window = windows.get(name or "")
    if window is None or window.status != "rejected":
        return window is not None
    return window.resets_at is not None and window.seen_at < window.resets_at <= window.seen_at + FARTHEST_RESET


@lru_cache(1000)
def applies_to(window: str, model: str) -> bool:
    """Return whether a window applies to a model: `seven_day_opus` applies to that family, `five_hour` to all."""
    family = next((name for name in FAMILIES if window.endswith(f"_{name}")), None)
    return family is None or not any(name in model for name in FAMILIES) or family in model


def nearly_used_up(windows: Windows, now: datetime) -> tuple[str, ...]:
    """Return the windows that were reported as nearly used up and have not been reset since."""
    return tuple(
        name
        for name, window in windows.items()
        if window.status == "allowed_warning" and (window.resets_at is None or window.resets_at > now)
    )


def as_of(window: Window, now: datetime) -> Window:
    """Return a window as it stands now: one whose reset has passed is open, whatever was reported before."""
    if window.resets_at is None or window.resets_at > now or window.resets_at > window.seen_at + FARTHEST_RESET:
        return window
    return replace(window, status="allowed", utilization=None, resets_at=None)


def window_of(limit: Limit, at: datetime) -> Window:
    """Return a window as an agent's CLI reports it; an impossible reset is dropped."""
    resets_at = None
    if limit.resets_at is not None and 0 < limit.resets_at < LAST_SECOND:
        resets_at = datetime.fromtimestamp(limit.resets_at, UTC)
    return Window(
        status=limit.status.value,
        resets_at=resets_at,
        utilization=limit.utilization,
        overage=limit.overage,
        seen_at=at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the account and the day allow a task at the time of a decision.

    `refusal` says why the account allows no turn at all: what the task waits for, and the reason in words. `day` caps
    what all tasks may use today; `spent_by_others` is what the others have used, and may use in their running turns.
    `shared` has the caps of each parent above the task, and the same of the other tasks that they bound.
    """

    refusal: tuple[PauseReason, str] | None = None
    day: Caps = NO_CAPS
    spent_by_others: Spending = NOTHING_SPENT
    shared: tuple[tuple[Caps, Spending], ...] = ()

    def forbids_turn(self, spent_today: Spending, spent: Spending) -> PauseReason | None:
        """Return what a task that spent so much today and in all waits for before its next turn; None: for nothing."""
        if self.refusal is not None:
            return self.refusal[0]
        bounds = ((self.day, self.spent_by_others + spent_today), *((caps, one + spent) for caps, one in self.shared))
        return PauseReason.BUDGET if any(reached_cap(used, caps) for caps, used in bounds) else None


EVERYTHING = Allowance()
"""Nothing is forbidden."""
