"""What work may cost and has cost: money, tokens, turns and hours, of one task or of all tasks in a day.

The CLI reports totals, and costs are differences of totals; so a line that is read twice costs nothing. Each task keeps
what it has spent on each day. Sums over tasks are derived.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What was used; `seconds` counts the time in which an agent was active, not the time in which it was frozen."""

    usd: float = 0.0
    tokens: int = 0
    turns: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            usd=round(self.usd + other.usd, 6),
            tokens=self.tokens + other.tokens,
            turns=self.turns + other.turns,
            seconds=round(self.seconds + other.seconds, 3),
        )

    def __sub__(self, other: "Spending") -> "Spending":
        return Spending(
            usd=round(self.usd - other.usd, 6),
            tokens=self.tokens - other.tokens,
            turns=self.turns - other.turns,
            seconds=round(self.seconds - other.seconds, 3),
        )


NOTHING_SPENT = Spending()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpending:
    """What one task has used, by the day (as 2026-11-21, in UTC).

    `usd_at_limit` is what it had spent when it first met a usage limit, `by_children` what its ended children spent.
    """

    by_day: Mapping[str, Spending] = field(default_factory=dict)
    usd_at_limit: float | None = None
    by_children: Spending = NOTHING_SPENT

    @property
    def total(self) -> Spending:
        """Return what the task itself has used since it began."""
        return sum(self.by_day.values(), NOTHING_SPENT)

    @property
    def whole(self) -> Spending:
        """Return what the task and its ended children have used: what its caps bound."""
        return self.total if self.by_children == NOTHING_SPENT else self.total + self.by_children

    def with_spent(self, day: str, used: Spending) -> "TaskSpending":
        """Return the spending with more used on a day."""
        return replace(self, by_day={**self.by_day, day: self.on(day) + used})

    def on(self, day: str) -> Spending:
        """Return what the task has used on a day."""
        return self.by_day.get(day, NOTHING_SPENT)


NO_SPENDING = TaskSpending()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that may be used; None means no cap."""

    usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    hours: float | None = None


NO_CAPS = Caps()


def reached_cap(spent: Spending, caps: Caps) -> str | None:
    """Return which cap is reached, in words for a person; None while something is left of each."""
    return next(iter(reached_caps(spent, caps).values()), None)


def reached_caps(spent: Spending, caps: Caps) -> Mapping[str, str]:
    """Return every cap that is reached: its name, and in words for a person how much is used."""
    found = {}
    if caps.usd is not None and spent.usd >= caps.usd:
        found["usd"] = f"${spent.usd:.2f} of ${caps.usd:.2f} are spent"
    if caps.tokens is not None and spent.tokens >= caps.tokens:
        found["tokens"] = f"{spent.tokens:,} of {caps.tokens:,} tokens are used"
    if caps.turns is not None and spent.turns >= caps.turns:
        found["turns"] = f"{spent.turns} of {caps.turns} turns are used"
    if caps.hours is not None and seconds_left(spent, caps) == 0.0:
        found["hours"] = f"{spent.seconds / 3600:.1f} of {caps.hours:g} hours of work are used"
    return found


def usd_left(spent: Spending, caps: Caps) -> float | None:
    """Return the money that is left, never below zero; None without a cap."""
    return None if caps.usd is None else max(0.0, round(caps.usd - spent.usd, 6))


def seconds_left(spent: Spending, caps: Caps) -> float | None:
    """Return the working time that is left in seconds, never below zero; None without a cap."""
    return None if caps.hours is None else max(0.0, round(caps.hours * 3600 - spent.seconds, 3))
