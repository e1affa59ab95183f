"""Telling of a dead channel on another one, once, and of its recovery in the same place.

Both notices have keys that follow from the time of the first failure, which is on disk before they are told. So a crash
between the steps repeats nothing.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.formats.codec import stamp
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
            text = f"The channel {channel!r} works again. It had failed since {stamp(before.failing_since)}."
            await self._tell(MachineNoticeKind.CHANNEL_RECOVERED, channel, before, text, before.told)
        await self._note(channel, before.worked(at))

    async def failed(self, channel: str, at: datetime, reason: str) -> int:
        """Note that a channel failed, and return how often in a row it has; tell it elsewhere if it counts as dead."""
        health = self.book.of(channel).failed(at, reason)
        await self._note(channel, health)
        if not health.is_dead or health.told:
            return health.failures
        dead = {name for name, _ in self.dead()}
        other = next((name for name in self.announcer.rules().channels if name not in dead), None)
        if health.failures == DEAD_AFTER:
            log.warning("channel_dead", channel=channel, reason=reason, told_on=other)
        if other is not None and health.failing_since:
            text = (
                f"The channel {channel!r} does not work since {stamp(health.failing_since)}: {reason}. "
                "What it was to tell waits in the outbox."
            )
            if await self._tell(MachineNoticeKind.CHANNEL_FAILED, channel, health, text, other):
                await self._note(channel, replace(health, told=other))
        return health.failures

    async def _tell(self, kind: MachineNoticeKind, channel: str, health: ChannelHealth, text: str, on: str) -> bool:
        """Tell something of a channel on another; return whether that is on disk now."""
        since = stamp(health.failing_since) if health.failing_since else ""
        key = f"{kind.value}:{channel}:{since}"
        channels = [on] if on in self.announcer.rules().channels else []
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
