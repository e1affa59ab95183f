"""What must hold of what was told: nothing lost, nothing twice, nothing in quiet hours, each report once, no channel
dead in silence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.notices.rules import Rules, held_until
from orchestrator.formats.codec import stamp
from orchestrator.integrations.notices.entries import Delivery, Entry
from orchestrator.integrations.notices.outbox import MOST_KEPT, MOST_WAITING
from tests.year.night_watch import SWEEP, NightWatch
from tests.year.receivers import Receipt, Receivers
from tests.year.settings import BERLIN, NOTIFY

LONG_DEAD = timedelta(hours=2)
"""After so long somebody must have been told of a dead channel, if any other channel worked all that time."""
MOST_LATE = timedelta(seconds=SWEEP + 10)
_QUIET = {"chat": (time(22), time(7)), "mail": (time(22), time(7)), "hook": (time(1, 30), time(2, 30))}
_LET_THROUGH = {"login_missing", "limit_reached", "test", "morning_report"}


@dataclass(slots=True)
class Watch:
    """Collects while the year runs what cannot be seen at its end."""

    receivers: Receivers
    silent: list[str] = field(default_factory=list)
    most_waiting: int = 0
    most_kept: int = 0

    def look(self, watch: NightWatch) -> None:
        """Look whether each dead channel was told of elsewhere; called each hour."""
        assert watch.notices is not None
        now = watch.time()
        entries = watch.notices.announcer.outbox.entries()
        self.most_kept = max(self.most_kept, len(entries))
        self.most_waiting = max(self.most_waiting, sum(one.is_waiting for one in entries))
        for one in watch.notices.service.channels():
            since = one.health.failing_since
            if not one.is_dead or since is None or now - since < LONG_DEAD:
                continue
            well = [
                name for name in _names() if name != one.name and self.receivers.is_well(name, now - LONG_DEAD, now)
            ]
            prefix = f"{MachineNoticeKind.CHANNEL_FAILED.value}:{one.name}:{stamp(since)}"
            told = any(receipt.key.startswith(prefix) for receipt in self.receivers.taken)
            started = next((end for _, end in reversed(watch.downtimes) if end), now)
            if well and not told and not _in_digest(prefix, watch) and now - started > LONG_DEAD:
                self.silent.append(
                    f"{now:%m-%d %H:%M}: {one.name} is dead since {stamp(since)}, {well} work, none knows"
                )


def _in_digest(prefix: str, watch: NightWatch) -> bool:
    """Return whether a notice waits for a digest or the end of quiet hours on a channel that works."""
    assert watch.notices is not None
    health = watch.notices.service.watch.book
    found = [entry for key, entry in watch.entries.items() if key.startswith(prefix)]
    return any(
        one.status in (DeliveryStatus.SENT, DeliveryStatus.IN_DIGEST)
        or (one.is_waiting and not one.attempts and not health.of(one.channel).failures)
        for entry in found
        for one in entry.deliveries
    )


def _names() -> list[str]:
    channels = NOTIFY["channels"]
    assert isinstance(channels, Mapping)
    return list(channels)


def broken(
    watch: NightWatch, receivers: Receivers, looked: Watch, rules: Rules, report_days: list[date]
) -> Iterator[str]:
    """Yield each law about what was told that was broken, in words."""
    yield from _everything_told_is_stored(watch)
    yield from _delivered_once_or_explained(watch, receivers, rules)
    yield from _nothing_in_quiet_hours(receivers)
    yield from _each_report_once(watch, report_days)
    yield from looked.silent[:20]
    if looked.most_waiting > MOST_WAITING or looked.most_kept > MOST_WAITING + MOST_KEPT:
        yield f"{looked.most_waiting} notices waited, and {looked.most_kept} were kept at once"
    yield from watch.stops.wrong([entry for key, entry in sorted(watch.entries.items()) if key.startswith("report:")])


def broken_by_work(watch: NightWatch) -> Iterator[str]:
    """Yield each law that was broken whoever is told of it: about the work itself, and what `why` said of it."""
    yield from (f"why: {text}" for text in watch.reasons.broken)
    yield from (f"a fault in the daemon: {text}" for text in watch.faults)
    yield from (f"{one.invariant}: {one.task} {one.text}" for one in watch._monitor.violations)  # noqa: SLF001


def _everything_told_is_stored(watch: NightWatch) -> Iterator[str]:
    for key in watch.told:
        if key not in watch.entries:
            yield f"{key} is on record as told, and was never stored"


def _delivered_once_or_explained(watch: NightWatch, receivers: Receivers, rules: Rules) -> Iterator[str]:
    taken: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in receivers.taken:
        taken[receipt.channel, receipt.key].append(receipt)
    for (channel, key), receipts in taken.items():
        entry = watch.entries.get(key)
        if entry is None or entry.on(channel) is None:
            yield f"{key} came on {channel}, and nobody told it there"
        for first, second in pairwise(receipts):
            if first.is_known:
                yield f"{key} came twice on {channel}, at {first.at} and {second.at}"
    for entry in watch.entries.values():
        for one in entry.deliveries:
            came = bool(taken[one.channel, entry.key])
            yield from _explained(watch, rules, entry, one, came)
            if one.status is DeliveryStatus.FAILED and not _known_elsewhere(watch, entry, one, receivers):
                yield f"{entry.key} was given up on {one.channel} ({one.reason}), and no other channel told that"


def _explained(watch: NightWatch, rules: Rules, entry: Entry, one: Delivery, came: bool) -> Iterator[str]:
    """Yield what is wrong with what is known of a notice on a channel; `came` says that its receiver took it."""
    name, now = f"{entry.key} on {one.channel}", watch.time()
    match one.status:
        case DeliveryStatus.SENT if not came:
            yield f"{name} is said to be sent, and never came"
        case DeliveryStatus.IN_DIGEST:
            digest = watch.entries.get(one.reason)
            if came:
                yield f"{name} came alone and in a digest"
            if digest is None or entry.key not in digest.members or digest.on(one.channel) is None:
                yield f"{name} is said to be in the digest {one.reason}, which does not name it"
        case DeliveryStatus.FAILED if not one.reason:
            yield f"{name} was given up for no reason"
        case DeliveryStatus.WAITING if one.attempts and not one.reason:
            yield f"{name} waits after {one.attempts} tries for no reason"
        case DeliveryStatus.WAITING if not one.attempts and now - entry.at > timedelta(hours=1):
            held = held_until(entry.as_waiting(one.channel), rules.channels[one.channel], now, rules.zone)
            failing = watch.notices and watch.notices.service.watch.book.of(one.channel).failures
            if held is None and not failing and watch.notices:
                yield f"{name} waits since {entry.at} although nothing is in its way"
        case _:
            return


def _known_elsewhere(watch: NightWatch, entry: Entry, one: Delivery, receivers: Receivers) -> bool:
    """Return whether another channel took the notice, or was told that this one is dead at that time."""
    if any(other.status is DeliveryStatus.SENT for other in entry.deliveries if other.channel != one.channel):
        return True
    prefix, given_up = f"{MachineNoticeKind.CHANNEL_FAILED.value}:{one.channel}:", one.at or entry.at
    told = [key for key in watch.entries if key.startswith(prefix) and watch.entries[key].at <= given_up]
    in_digests = {key for receipt in receivers.taken for key in _members(watch, receipt.key)} if told else set()
    return any(receipt.key in told for receipt in receivers.taken) or any(key in in_digests for key in told)


def figures(watch: NightWatch, receivers: Receivers) -> Counter[str]:
    """Return what became of each notice on each of its channels, and how often it came there."""
    taken = Counter((one.channel, one.key) for one in receivers.taken)
    found: Counter[str] = Counter()
    for entry in watch.entries.values():
        for one in entry.deliveries:
            came = taken[one.channel, entry.key]
            found["to be told"] += 1
            found[_became(one, came=bool(came), is_digested=bool(taken[one.channel, one.reason]))] += 1
            found["came again after a kill or a lost answer"] += max(0, came - 1)
    return found


def _became(one: Delivery, *, came: bool, is_digested: bool) -> str:
    match one.status:
        case _ if came:
            return "told"
        case DeliveryStatus.IN_DIGEST:
            return "told in a digest" if is_digested else "in a digest that was given up or waits"
        case DeliveryStatus.FAILED:
            return "given up, which is told elsewhere"
        case DeliveryStatus.WAITING:
            return "waits"
        case DeliveryStatus.SENT:
            return "missing"


def _members(watch: NightWatch, key: str) -> tuple[str, ...]:
    entry = watch.entries.get(key)
    return entry.members if entry else ()


def _nothing_in_quiet_hours(receivers: Receivers) -> Iterator[str]:
    for receipt in receivers.taken:
        if receipt.channel not in _QUIET or receipt.kind in _LET_THROUGH:
            continue
        begin, end = _QUIET[receipt.channel]
        clock = receipt.sent_at.astimezone(BERLIN).time().replace(fold=0)
        if (begin <= clock < end) if begin < end else (clock >= begin or clock < end):
            yield f"{receipt.key} ({receipt.kind}) came on {receipt.channel} at {clock}, in its quiet hours"


def _each_report_once(watch: NightWatch, days: list[date]) -> Iterator[str]:
    """Yield what is wrong with reports: each is due two and a half hours after midnight, also where clocks change."""
    reports = {key: entry for key, entry in watch.entries.items() if key.startswith("report:")}
    if sorted(reports) != [f"report:{day.isoformat()}" for day in days]:
        yield f"reports of {sorted(reports)}, not of {days[0]} to {days[-1]}"
    ordered = [reports[key] for key in sorted(reports)]
    for one, other in pairwise(ordered):
        if one.document["until"] != other.document["since"]:
            yield f"{other.key} begins at {other.document['since']}, and {one.key} ends at {one.document['until']}"
    for entry in ordered:
        day = date.fromisoformat(entry.key.partition(":")[2])
        due = datetime.combine(day, time(0), BERLIN).astimezone(UTC) + timedelta(hours=2, minutes=30)
        up_at = max((end for _, end in watch.downtimes if end and due < end <= entry.at), default=due)
        if not timedelta(seconds=-1) <= entry.at - up_at <= MOST_LATE:
            yield f"{entry.key} was due at {due} and is of {entry.at}"
        wanted = {"mail", "pager", "old"}
        if {one.channel for one in entry.deliveries} != wanted:
            yield f"{entry.key} goes to {entry.deliveries}"
