"""Which channels a notice goes to, and which of those that wait on a channel are due.

The rules of a channel say when; nothing here depends on when it was last asked, so a clock that jumps, a suspended
machine and a restart need no cases of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.hours import Hours

AT_ONCE = frozenset({MachineNoticeKind.TEST, MachineNoticeKind.MORNING_REPORT})
"""Kinds that are never held back: somebody waits for the one, and has set the time of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Notices of these kinds, all if none is named, go to these channels, within `hours` if given."""

    channels: frozenset[str]
    kinds: frozenset[str] = frozenset()
    hours: Hours | None = None

    def covers(self, kind: str, at: datetime, zone: tzinfo) -> bool:
        """Return whether the rule speaks of a notice of this kind at this time."""
        return (not self.kinds or kind in self.kinds) and (self.hours is None or self.hours.contains(at, zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalation:
    """What waits for a person for longer than `after` seconds is told on other channels; no kinds mean all."""

    channels: frozenset[str]
    after: float
    kinds: frozenset[str] = frozenset()

    def is_due(self, kind: str, since: datetime, now: datetime, window: float) -> bool:
        """Return whether a request is that old now, but not by more than `window` seconds older."""
        age = (now - since).total_seconds()
        return (not self.kinds or kind in self.kinds) and self.after <= age < self.after + window


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRules:
    """When a channel may be used: not in `quiet` hours, except for `urgent` kinds, and only every `digest_every` s."""

    quiet: Hours | None = None
    digest_every: float = 0.0
    urgent: frozenset[str] = frozenset()

    def is_urgent(self, kind: str) -> bool:
        """Return whether notices of this kind are never held back."""
        return kind in self.urgent or kind in AT_ONCE

    def is_quiet(self, at: datetime, zone: tzinfo) -> bool:
        """Return whether a moment is within the quiet hours."""
        return self.quiet is not None and self.quiet.contains(at, zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules; `channels` are in the order in which they are set, `zone` is where the hours are read.

    A notice that was tried and not delivered for `expire_after` seconds is given up.
    """

    channels: Mapping[str, ChannelRules]
    zone: tzinfo
    rules: tuple[Rule, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    expire_after: float = 3 * 86_400.0

    def channels_for(self, kind: str, at: datetime) -> tuple[str, ...]:
        """Return the channels of a notice: those of its rules, and those that neither rule nor escalation names."""
        named = {name for rule in self.rules for name in rule.channels}
        named |= {name for escalation in self.escalations for name in escalation.channels}
        wanted = {name for rule in self.rules if rule.covers(kind, at, self.zone) for name in rule.channels}
        return tuple(name for name in self.channels if name in wanted or name not in named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A notice that waits on a channel; `is_whole` says that it was composed to be sent alone, as a digest is."""

    key: str
    kind: str
    at: datetime
    attempts: int = 0
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The keys of what is to be sent now: `singles` in this order, each alone, and `digest` together."""

    singles: tuple[str, ...] = ()
    digest: tuple[str, ...] = ()


def due(waiting: Iterable[Waiting], rules: ChannelRules, now: datetime, zone: tzinfo) -> Due:
    """Return what is due on a channel; what was tried least comes first, so that none stands in the way of others."""
    ordered = sorted(waiting, key=lambda one: (one.attempts, one.at, one.key))
    if rules.is_quiet(now, zone):
        return Due(singles=_keys(one for one in ordered if rules.is_urgent(one.kind)))
    gathered = [one for one in ordered if not (one.attempts or one.is_whole or rules.is_urgent(one.kind))]
    if not rules.digest_every:
        gathered = [one for one in gathered if rules.is_quiet(one.at, zone)]
    together = {one.key for one in gathered}
    alone = _keys(one for one in ordered if one.key not in together)
    if rules.digest_every and gathered and not _is_over(gathered, rules.digest_every, now):
        return Due(singles=alone)
    if len(gathered) < 2:
        return Due(singles=_keys(ordered))
    return Due(singles=alone, digest=_keys(gathered))


def held_until(one: Waiting, rules: ChannelRules, now: datetime, zone: tzinfo) -> datetime | None:
    """Return until when a notice is held back on a channel, None if it is not."""
    if rules.is_urgent(one.kind):
        return None
    until = now
    if rules.digest_every and not (one.attempts or one.is_whole):
        until = max(now, one.at + timedelta(seconds=rules.digest_every))
    if rules.quiet is not None and rules.quiet.contains(until, zone):
        until = rules.quiet.end_after(until, zone)
    return until if until > now else None


def _is_over(gathered: Sequence[Waiting], interval: float, now: datetime) -> bool:
    """Return whether an interval has passed since the oldest; a clock that was set back ends it too."""
    waited = (now - min(one.at for one in gathered)).total_seconds()
    return not 0 <= waited < interval


def _keys(several: Iterable[Waiting]) -> tuple[str, ...]:
    return tuple(one.key for one in several)
