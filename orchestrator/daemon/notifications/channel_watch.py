"""Telling of a dead channel on another one, once, and of its recovery in the same place.

Where that other one dies too before it took the notice, a third one is told.

Both notices have keys that follow from the time of the first failure, which is on disk before they are told. So a crash
between the steps repeats nothing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.notices.sentence import Sentence
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.formats.codec import stamp
from orchestrator.integrations.notices.entries import Delivery
from orchestrator.integrations.notices.health import DEAD_AFTER, ChannelHealth, HealthBook

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelWatch:
    """Notes how channels do, and tells of those that do not work."""

    book: HealthBook
    announcer: Announcer

    def dead(self) -> Iterator[tuple[str, ChannelHealth]]:
        """Yield the channels that are set and do not work, with what is known of them."""
        for name in self.announcer.rules().channels:
            if (health := self.book.of(name)).is_dead:
                yield name, health

    async def worked(self, channel: str, at: datetime) -> None:
        """Note that a channel took a notice; if it was told that it does not, tell that it does again."""
        before = self.book.of(channel)
        if before.told and before.failing_since:
            log.info("channel_recovered", channel=channel)
            text = Sentence(
                "The channel %(channel)r works again. It had failed since %(since)s.",
                {"channel": channel, "since": stamp(before.failing_since)},
            )
            told_on = [one.channel for one in self._tellings(channel, before)] or [before.told]
            await self._tell(MachineNoticeKind.CHANNEL_RECOVERED, channel, before, text, told_on)
        await self._note(channel, before.worked(at))

    async def failed(self, channel: str, at: datetime, reason: str) -> int:
        """Note that a channel failed, and return how often in a row it has; tell it elsewhere if it counts as dead."""
        health = self.book.of(channel).failed(at, reason)
        await self._note(channel, health)
        if not health.is_dead or self._is_known(channel, health):
            return health.failures
        other = self._best_other(channel, health)
        if health.failures == DEAD_AFTER:
            log.warning("channel_dead", channel=channel, reason=reason, told_on=other)
        if other is not None and health.failing_since:
            text = Sentence(
                "The channel %(channel)r does not work since %(since)s: %(reason)s. "
                "What it was to tell waits in the outbox.",
                {"channel": channel, "since": stamp(health.failing_since), "reason": reason},
            )
            if await self._tell(MachineNoticeKind.CHANNEL_FAILED, channel, health, text, [other]):
                await self._note(channel, replace(health, told=other))
        return health.failures

    def _tellings(self, channel: str, health: ChannelHealth) -> Iterator[Delivery]:
        """Yield where it was told that a channel does not work, since it fails this time."""
        key = _key(MachineNoticeKind.CHANNEL_FAILED, channel, health)
        for one in (key, *(f"{key}:{name}" for name in self.announcer.rules().channels)):
            if (entry := self.announcer.outbox.get(one)) is not None:
                yield from entry.deliveries

    def _is_known(self, channel: str, health: ChannelHealth) -> bool:
        """Return whether somebody was told that a channel does not work, or will be on one that is not dead."""
        dead = {name for name, _ in self.dead()}
        return any(
            one.status in (DeliveryStatus.SENT, DeliveryStatus.IN_DIGEST)
            or (one.is_waiting and one.channel not in dead)
            for one in self._tellings(channel, health)
        )

    def _best_other(self, channel: str, health: ChannelHealth) -> str | None:
        """Return where to tell that a channel does not work: the channel that fails least and was not told yet."""
        left_out = {
            channel,
            *(name for name, _ in self.dead()),
            *(one.channel for one in self._tellings(channel, health)),
        }
        others = [name for name in self.announcer.rules().channels if name not in left_out]
        return min(others, key=lambda name: self.book.of(name).failures, default=None)

    async def _tell(
        self, kind: MachineNoticeKind, channel: str, health: ChannelHealth, text: Sentence, on: Sequence[str]
    ) -> bool:
        """Tell something of a channel on others; return whether that is on disk now."""
        key, known = _key(kind, channel, health), self.announcer.rules().channels
        if self.announcer.outbox.get(key) is not None and kind is MachineNoticeKind.CHANNEL_FAILED:
            key = f"{key}:{on[0]}"
        channels = [name for name in known if name in on]
        try:
            await self.announcer.announce(
                key, kind, text, command=f"orchestrator notify test {channel}", channels=channels
            )
        except OSError as error:
            log.warning("notice_not_stored", key=key, reason=str(error))
            return False
        return True

    async def _note(self, channel: str, health: ChannelHealth) -> None:
        await asyncio.to_thread(self.book.write, self.book.note(channel, health))


def _key(kind: MachineNoticeKind, channel: str, health: ChannelHealth) -> str:
    since = stamp(health.failing_since) if health.failing_since else ""
    return f"{kind.value}:{channel}:{since}"
