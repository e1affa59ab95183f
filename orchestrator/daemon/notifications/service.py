"""The use cases of notifications: what was told, how the channels do, and a test of them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.rules import held_until
from orchestrator.core.notices.sentence import Sentence
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.notifications.channel_watch import ChannelWatch
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import stamp
from orchestrator.integrations.notices.entries import Delivery, Entry
from orchestrator.integrations.notices.health import ChannelHealth

TEST_PATIENCE = 30.0
"""Seconds that a test waits for what becomes of it."""


class NoChannel(OrchestratorError):
    """There is no channel to test; set [notify.channels.<name>] or [people] notify_command."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


class NoSuchChannel(OrchestratorError):
    """No channel has that name; the message names those that there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDelivery:
    """A notice on one channel, and until when it is held back there, if it is."""

    delivery: Delivery
    held_until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNotice:
    """A notice that was told, with what became of it on each channel."""

    entry: Entry
    deliveries: tuple[ShownDelivery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """A channel, how it does, and how many notices wait for it."""

    name: str
    health: ChannelHealth
    is_dead: bool
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationService:
    """The use cases of notifications."""

    announcer: Announcer
    watch: ChannelWatch

    def channels(self) -> list[ChannelState]:
        """Return every channel that is set."""
        return [self._state(name) for name in self.announcer.rules().channels]

    def dead(self) -> list[ChannelState]:
        """Return the channels that do not work."""
        return [one for one in self.channels() if one.is_dead]

    def dead_channels(self) -> dict[str, str]:
        """Return since when and why channels do not work, by their names."""
        return {one.name: one.health.summary for one in self.dead()}

    def newest(self, limit: int, *, only_open: bool = False) -> list[ShownNotice]:
        """Return the newest notices, of `only_open` those that wait or were given up on some channel."""
        entries = self.announcer.outbox.entries()
        wanted = [one for one in entries if not only_open or _is_open(one)]
        return [self._shown(one) for one in wanted[:limit]]

    async def test(self, channel: str | None) -> list[ShownNotice]:
        """Send a test on a channel, or on each, and return what became of it so far.

        Raises NoSuchChannel for another channel, NoChannel if none is set, and OSError.
        """
        known = list(self.announcer.rules().channels)
        if not known:
            raise NoChannel
        if channel is not None and channel not in known:
            raise NoSuchChannel(f"there is no channel {channel!r:.60}; there are {', '.join(known)}")
        names = known if channel is None else [channel]
        keys = [await self._announce_test(name) for name in names]
        await self._until_tried(keys)
        return [self._shown(found) for key in keys if (found := self.announcer.outbox.get(key))]

    async def _announce_test(self, name: str) -> str:
        key = f"test:{name}:{stamp(self.announcer.clock())}"
        text = Sentence(
            "This is a test of the channel %(channel)r. If you read it, the channel works.", {"channel": name}
        )
        await self.announcer.announce(key, MachineNoticeKind.TEST, text, channels=[name])
        return key

    async def _until_tried(self, keys: Sequence[str]) -> None:
        outbox, tried = self.announcer.outbox, asyncio.Event()

        def look(_: Entry) -> None:
            if not any(entry.is_waiting for key in keys if (entry := outbox.get(key))):
                tried.set()

        with outbox.listening(look):
            for key in keys:
                if (entry := outbox.get(key)) is not None:
                    look(entry)
            try:
                async with asyncio.timeout(TEST_PATIENCE):
                    await tried.wait()
            except TimeoutError:
                return

    def _state(self, name: str) -> ChannelState:
        health = self.watch.book.of(name)
        return ChannelState(
            name=name,
            health=health,
            is_dead=health.is_dead,
            waiting=len(self.announcer.outbox.waiting(name)),
        )

    def _shown(self, entry: Entry) -> ShownNotice:
        rules, now = self.announcer.rules(), self.announcer.clock()

        def held(delivery: Delivery) -> datetime | None:
            of_channel = rules.channels.get(delivery.channel)
            if not delivery.is_waiting or of_channel is None:
                return None
            return held_until(entry.as_waiting(delivery.channel), of_channel, now, rules.zone)

        deliveries = tuple(ShownDelivery(delivery=one, held_until=held(one)) for one in entry.deliveries)
        return ShownNotice(entry=entry, deliveries=deliveries)


def _is_open(entry: Entry) -> bool:
    """Return whether it waits, or was given up; a test that failed was told to whoever tested."""
    if entry.kind == MachineNoticeKind.TEST:
        return entry.is_waiting
    return any(one.is_waiting or one.status == "failed" for one in entry.deliveries)
