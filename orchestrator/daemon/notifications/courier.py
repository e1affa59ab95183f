"""Sending what waits in the outbox: each channel by a worker of its own, so that a dead one delays no other.

A worker tries one notice at a time. After a failure it pauses, longer each time, and begins with what was tried least;
so neither a dead channel is hammered nor one notice stands in the way of the others.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from random import SystemRandom

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.notices.rules import Due, Rules, due
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.notifications.channel_watch import ChannelWatch
from orchestrator.integrations.notices.channel import Channel, NotDelivered
from orchestrator.integrations.notices.documents import compose_digest
from orchestrator.integrations.notices.entries import Delivery, Entry
from orchestrator.integrations.notices.outbox import NoticeOutbox

log = structlog.get_logger()

FEWEST_TRIES = 3
"""How often a notice was tried, at least, before it expires: a clock that jumps ahead gives up nothing untried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CourierPatience:
    """Seconds: for one try, the longest from one failure to the next try, and between two looks at the rules.

    The rules are asked again without any news, because clocks jump and hours end.
    """

    attempt: float = 60.0
    longest_pause: float = 900.0
    sweep: float = 30.0


@dataclass(slots=True, kw_only=True)
class Courier:
    """Sends what waits, from `run` on. `channels` returns the channels in force by their names.

    `pause` returns the seconds from a channel's first failure to the next try; they double each time.
    """

    announcer: Announcer
    watch: ChannelWatch
    channels: Callable[[], Mapping[str, Channel]]
    redact: Callable[[str], str]
    pause: Callable[[], float]
    patience: CourierPatience = CourierPatience()
    _wakes: dict[str, asyncio.Event] = field(default_factory=dict, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _random: SystemRandom = field(default_factory=SystemRandom, init=False)

    @property
    def outbox(self) -> NoticeOutbox:
        """Where the notices wait."""
        return self.announcer.outbox

    @property
    def rules(self) -> Rules:
        """The rules in force."""
        return self.announcer.rules()

    def adopt(self) -> None:
        """Look at the channels and the rules again: the settings have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Send what waits, also from before a restart, until this is cancelled."""
        working: dict[str, tuple[Channel, asyncio.Task[None]]] = {}
        try:
            with self.outbox.listening(self._on_change):
                while True:
                    self._changed.clear()
                    await self._adjust(working)
                    await self._until_changed([task for _, task in working.values()])
        finally:
            for _, task in working.values():
                task.cancel()
            await asyncio.gather(*(task for _, task in working.values()), return_exceptions=True)

    async def _until_changed(self, working: list[asyncio.Task[None]]) -> None:
        """Wait for other settings. A worker ends only by a bug, which is raised and ends the daemon."""
        changed = asyncio.create_task(self._has_changed())
        try:
            done, _ = await asyncio.wait([changed, *working], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            changed.cancel()

    async def _has_changed(self) -> None:
        await self._changed.wait()

    async def _adjust(self, working: dict[str, tuple[Channel, asyncio.Task[None]]]) -> None:
        """Start and end workers until there is one for each channel in force."""
        wanted = self.channels()
        for name in [name for name, (channel, _) in working.items() if wanted.get(name) != channel]:
            _, task = working.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._give_up_removed(set(wanted))
        for name, channel in wanted.items():
            self._wakes.setdefault(name, asyncio.Event()).set()
            if name not in working:
                working[name] = (channel, asyncio.create_task(self._serve(name, channel), name=f"channel {name}"))

    async def _give_up_removed(self, names: set[str]) -> None:
        self.watch.book.keep_only(names)
        for entry in self.outbox.entries():
            for delivery in entry.deliveries:
                if delivery.is_waiting and delivery.channel not in names:
                    reason = "this channel is no longer in the settings"
                    await self._record(entry, replace(delivery, status=DeliveryStatus.FAILED, reason=reason))

    def _on_change(self, entry: Entry) -> None:
        for delivery in entry.deliveries:
            if delivery.is_waiting and (wake := self._wakes.get(delivery.channel)):
                wake.set()

    async def _serve(self, name: str, channel: Channel) -> None:
        """Send what is due on a channel, again and again."""
        wake, refused = self._wakes[name], 0
        while True:
            wake.clear()
            try:
                pause = await self._send_due(name, channel)
                refused = 0
            except OSError as error:  # the disk does not take a digest; what is in it waits on
                if not refused:
                    log.warning("digest_not_stored", channel=name, reason=str(error))
                refused += 1
                pause = self._longer_pause(refused)
            if pause is None:
                await _first(wake, self.patience.sweep)
            else:
                await self._pause(name, pause)

    async def _pause(self, name: str, seconds: float) -> None:
        """Wait after a failure, but not if somebody tests the channel meanwhile."""
        loop, wake = asyncio.get_running_loop(), self._wakes[name]
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            wake.clear()
            if any(one.kind == MachineNoticeKind.TEST for one in self.outbox.waiting(name)):
                return
            await _first(wake, left)

    async def _send_due(self, name: str, channel: Channel) -> float | None:
        """Send what is due now; return the seconds to pause after a failure, None if nothing more is due."""
        while not self.outbox.is_empty(name):
            plan = await asyncio.to_thread(self._plan, name)
            if plan.digest:
                await self._store_digest(name, plan.digest)
            elif not plan.singles:
                break
            elif (entry := self.outbox.get(plan.singles[0])) and (delivery := entry.on(name)) and delivery.is_waiting:
                pause = await self._attempt(entry, delivery, channel)
                if pause is not None:
                    return pause
        return None

    def _plan(self, name: str) -> Due:
        """Return what is due now on a channel; thousands of notices may wait, so this is for a thread."""
        rules = self.rules
        if (of_channel := rules.channels.get(name)) is None:
            return Due()
        waiting = [entry.as_waiting(name) for entry in self.outbox.waiting(name)]
        return due(waiting, of_channel, self.announcer.clock(), rules.zone)

    async def _store_digest(self, name: str, keys: tuple[str, ...]) -> None:
        """Store one notice in place of several; from then on these are not sent alone."""
        entries = [entry for key in keys if (entry := self.outbox.get(key))]
        key = f"digest:{name}:{sha256(' '.join(keys).encode()).hexdigest()[:32]}"
        at = self.announcer.clock()
        digest = compose_digest(key, entries, at, self.announcer.language(), self.rules.zone)
        await self.outbox.store(
            Entry(
                key=key,
                kind=MachineNoticeKind.DIGEST.value,
                at=at,
                subject=digest.subject,
                text=digest.text,
                document=digest.document,
                deliveries=(Delivery(channel=name),),
                members=keys,
            )
        )

    async def _attempt(self, entry: Entry, delivery: Delivery, channel: Channel) -> float | None:
        """Try to send a notice; return the seconds to pause if the channel failed, else None."""
        try:
            async with asyncio.timeout(self.patience.attempt):
                remark = await channel.send(entry)
        except TimeoutError:
            error = NotDelivered(f"it was not taken within {self.patience.attempt:g} s")
        except NotDelivered as refused:
            error = refused
        except Exception as fault:
            log.exception("channel_fault", channel=delivery.channel, key=entry.key)
            error = NotDelivered(f"a fault in this program: {type(fault).__name__}; the log has the details")
        else:
            now = self.announcer.clock()
            sent = replace(
                delivery, status=DeliveryStatus.SENT, attempts=delivery.attempts + 1, at=now, reason=self.redact(remark)
            )
            await _whole(self._sent(entry, sent, now))
            return None
        return await self._failed(entry, delivery, error)

    async def _sent(self, entry: Entry, sent: Delivery, now: datetime) -> None:
        await self._record(entry, sent)
        await self.watch.worked(sent.channel, now)

    async def _failed(self, entry: Entry, delivery: Delivery, error: NotDelivered) -> float | None:
        """Note a failure; that of a test is told to whoever tests, and counts for nothing else."""
        now, reason, tries = self.announcer.clock(), self.redact(str(error)), delivery.attempts + 1
        age, expire_after = (now - entry.at).total_seconds(), self.rules.expire_after
        failed = replace(delivery, attempts=tries, at=now, reason=reason)
        if not error.again or entry.kind == MachineNoticeKind.TEST:
            failed = replace(failed, status=DeliveryStatus.FAILED)
        elif tries >= FEWEST_TRIES and age > expire_after:
            failed = replace(
                failed, status=DeliveryStatus.FAILED, reason=f"not taken within {expire_after / 3600:g} h: {reason}"
            )
        await self._record(entry, failed)
        if entry.kind == MachineNoticeKind.TEST:
            failures = self.watch.book.of(delivery.channel).failures
        else:
            failures = await self.watch.failed(delivery.channel, now, reason)
        if not error.again or not failures:
            return None
        return max(self._longer_pause(failures), error.wait)

    def _longer_pause(self, failures: int) -> float:
        """Return the seconds to pause after so many failures in a row."""
        pause = min(self.pause() * 2.0 ** min(failures - 1, 30), self.patience.longest_pause)
        return pause * self._random.uniform(0.8, 1.2)

    async def _record(self, entry: Entry, delivery: Delivery) -> None:
        await self.outbox.record(entry.key, delivery)
        said = {"key": entry.key, "kind": entry.kind, "channel": delivery.channel}
        match delivery.status:
            case DeliveryStatus.SENT:
                log.info("notice_sent", **said, tries=delivery.attempts)
            case DeliveryStatus.FAILED:
                log.warning("notice_given_up", **said, reason=delivery.reason)
            case _:
                log.warning("notice_not_sent", **said, tries=delivery.attempts, reason=delivery.reason)


async def _whole(work: Coroutine[None, None, None]) -> None:
    """Do something to its end, also if this is cancelled meanwhile: what was sent must be known to be."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _first(wake: asyncio.Event, seconds: float) -> None:
    """Wait for news, at most so long."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return
