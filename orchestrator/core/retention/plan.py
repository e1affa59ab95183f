"""Which items go now, which will go later, and which are kept although they are due, each with the reason.

`plan` looks only at what it is given: items with their sizes and ages, the policy, the time. An item that is protected
never goes, whatever the policy says; it still counts as one of the newest.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from orchestrator.core.retention.policy import Kind, Limits, Policy
from orchestrator.core.retention.words import age_in_words, size_in_words


class Action(StrEnum):
    """What is done with an item."""

    REMOVE = "remove"
    COMPRESS = "compress"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something that takes space: `size` in bytes, `since` when it was used last or its task ended.

    `task` is empty where it belongs to none. `protection` says why it must stay; empty if it may go. `plain_size` are
    the bytes in it that are not compressed yet.
    """

    kind: Kind
    name: str
    task: str
    size: int
    since: datetime
    protection: str = ""
    plain_size: int = 0

    @property
    def key(self) -> tuple[Kind, str, str]:
        """What no other item has in common with it."""
        return self.kind, self.task, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is to be done with an item now, and the rule that says so, in words."""

    item: Item
    rule: str
    action: Action = Action.REMOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An item that would have to go, and why it stays."""

    item: Item
    rule: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What goes now, oldest first within each kind, and what is due but stays."""

    removals: tuple[Removal, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of everything that is removed."""
        return sum(one.item.size for one in self.removals if one.action is Action.REMOVE)


def plan(items: Iterable[Item], policy: Policy, now: datetime) -> Plan:
    """Return what is to be done with these items by this policy at this time."""
    removals: list[Removal] = []
    kept: list[Kept] = []
    for kind, found in _by_kind(items).items():
        gone = set()
        for item, rule in _due(found, policy.of(kind), policy.least_age, now):
            if item.protection:
                kept.append(Kept(item=item, rule=rule, reason=item.protection))
            else:
                removals.append(Removal(item=item, rule=rule))
                gone.add(item.key)
        if kind is Kind.TRANSCRIPTS:
            removals += _to_compress((one for one in found if one.key not in gone), policy, now)
    return Plan(removals=tuple(removals), kept=tuple(kept))


def tasks_to_archive(ended: Iterable[Item], policy: Policy, now: datetime) -> tuple[Removal, ...]:
    """Return which ended tasks, each given as an item, are archived now."""
    age = policy.archive_after
    if age is None:
        return ()
    due = (one for one in _oldest_first(ended) if not one.protection and now - one.since > age)
    return tuple(
        Removal(item=one, rule=f"ended more than {age_in_words(age)} ago", action=Action.ARCHIVE) for one in due
    )


def due_at(item: Item, policy: Policy) -> datetime | None:
    """Return when the age of an item makes it due; None if no age does, or it is protected."""
    age = policy.of(item.kind).age
    return None if age is None or item.protection else item.since + max(age, policy.least_age)


def _due(items: Iterable[Item], limits: Limits, least_age: timedelta, now: datetime) -> list[tuple[Item, str]]:
    """Return the items that a limit says must go and that are old enough, oldest first, each with the rule."""
    found: list[tuple[Item, str]] = []
    number = size = 0
    for item in reversed(_oldest_first(items)):
        number, size = number + 1, size + item.size
        rule = _broken(item, limits, (number, size), now)
        if rule and now - item.since > least_age:
            found.append((item, rule))
    return found[::-1]


def _broken(item: Item, limits: Limits, reached: tuple[int, int], now: datetime) -> str:
    """Return the limit that an item exceeds; empty if none. `reached` are number and bytes up to and with it."""
    number, size = reached
    if limits.age is not None and now - item.since > limits.age:
        return f"older than {age_in_words(limits.age)}"
    if limits.count is not None and number > limits.count:
        return f"more than {limits.count} of them"
    if limits.size is not None and size > limits.size:
        return f"more than {size_in_words(limits.size)} of them"
    return ""


def _to_compress(items: Iterable[Item], policy: Policy, now: datetime) -> list[Removal]:
    after = policy.compress_after
    if after is None:
        return []
    due = (one for one in _oldest_first(items) if one.plain_size and now - one.since > after)
    rule = f"ended more than {age_in_words(after)} ago"
    return [Removal(item=one, rule=rule, action=Action.COMPRESS) for one in due]


def _by_kind(items: Iterable[Item]) -> dict[Kind, list[Item]]:
    found: dict[Kind, list[Item]] = defaultdict(list)
    for item in items:
        found[item.kind].append(item)
    return found


def _oldest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.since, item.task, item.name))
