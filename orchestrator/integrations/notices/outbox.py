"""The outbox on disk: every notice is stored before it is sent, and what became of it is stored afterwards.

`<data>/notifications/outbox/<key>.json` is one notice with all its channels, replaced as a whole. A notice whose key is
known is not stored again, so whoever tells it may repeat that. A digest names the notices in it: once it is stored,
these are not sent alone, whatever crash comes between.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import nsmallest
from pathlib import Path

import structlog

from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.formats.files import make_private, read_file
from orchestrator.formats.versioned import decode_versioned, write_versioned
from orchestrator.integrations.notices.entries import FORMAT, Delivery, Entry

log = structlog.get_logger()

FOLDER, OUTBOX = "notifications", "outbox"
"""The folder of all this below the data folder, and that of the notices in it."""
MOST_WAITING, MOST_KEPT = 2000, 2000
"""How many notices may wait, and how many others are kept to be looked at."""
KEPT_FOR = timedelta(days=30)
SUFFIX = ".json"


class NoticeOutbox:
    """The notices that were told, in memory and on disk. Used from the event loop; files are written in threads."""

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        """Read what is there; a file that cannot be read is left alone and logged, as is one that cannot be written."""
        self._folder, self._clock = folder, clock
        self._lock = asyncio.Lock()
        self._on_disk = threading.Lock()
        self._listeners: list[Callable[[Entry], None]] = []
        self._entries = {entry.key: entry for entry in _stored(folder)}
        self._open: dict[str, Entry] = {}
        self._waiting: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
        for entry in self._entries.values():
            self._sort_in(entry)
        for entry in list(self._entries.values()):
            for changed in self._taken_up_by(entry):
                self._write_or_log(changed)
                self._keep(changed)

    @contextmanager
    def listening(self, call: Callable[[Entry], None]) -> Iterator[None]:
        """Call with every entry that is stored or changed meanwhile."""
        self._listeners.append(call)
        try:
            yield
        finally:
            self._listeners.remove(call)

    def get(self, key: str) -> Entry | None:
        """Return the notice with a key."""
        return self._entries.get(key)

    def entries(self) -> list[Entry]:
        """Return all notices, the newest first."""
        return sorted(self._entries.values(), key=lambda one: (one.at, one.key), reverse=True)

    def waiting(self, channel: str) -> list[Entry]:
        """Return what may still be sent on a channel; may be called in any thread."""
        return list(self._waiting[channel].values())

    def is_empty(self, channel: str) -> bool:
        """Return whether nothing is left to be sent on a channel."""
        return not self._waiting[channel]

    async def store(self, entry: Entry) -> bool:
        """Store a notice; return False if its key is known. It is on disk before this returns. Raises OSError."""
        async with self._lock:
            if entry.key in self._entries:
                return False
            await asyncio.to_thread(self._write, entry)
            self._keep(entry)
            for changed in self._taken_up_by(entry):
                await asyncio.to_thread(self._write_or_log, changed)
                self._keep(changed)
            await self._make_room()
        return True

    async def record(self, key: str, delivery: Delivery) -> None:
        """Store what became of a notice on a channel. If the disk fails, that is known until the daemon stops."""
        async with self._lock:
            if (entry := self._entries.get(key)) is None:
                return
            changed = entry.with_delivery(delivery)
            await asyncio.to_thread(self._write_or_log, changed)
            self._keep(changed)

    def _keep(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._sort_in(entry)
        for call in list(self._listeners):
            call(entry)

    def _sort_in(self, entry: Entry) -> None:
        """List a notice among those that wait: in all, and on each of its channels."""
        lists = [(self._waiting[one.channel], one.is_waiting) for one in entry.deliveries]
        for waiting, is_waiting in ((self._open, entry.is_waiting), *lists):
            if is_waiting:
                waiting[entry.key] = entry
            else:
                waiting.pop(entry.key, None)

    def _taken_up_by(self, digest: Entry) -> Iterable[Entry]:
        """Yield the notices that are sent with a digest and do not say so yet."""
        channels = [one.channel for one in digest.deliveries]
        for key in digest.members:
            member = self._entries.get(key)
            for channel in channels:
                if member is not None and (found := member.on(channel)) and found.is_waiting:
                    member = member.with_delivery(
                        replace(found, status=DeliveryStatus.IN_DIGEST, at=digest.at, reason=digest.key)
                    )
                    yield member

    async def _make_room(self) -> None:
        """Give up the oldest of too many notices that wait, and forget others that are old or too many."""
        for entry in _oldest(self._open.values(), len(self._open) - MOST_WAITING):
            reason = f"more than {MOST_WAITING} notices wait; this was the oldest"
            log.warning("notice_given_up", key=entry.key, reason=reason)
            ended = replace(
                entry,
                deliveries=tuple(
                    replace(one, status=DeliveryStatus.FAILED, reason=reason) if one.is_waiting else one
                    for one in entry.deliveries
                ),
            )
            await asyncio.to_thread(self._write_or_log, ended)
            self._keep(ended)
        since, others = self._clock() - KEPT_FOR, len(self._entries) - len(self._open) - MOST_KEPT
        ended_ones = [one for key, one in self._entries.items() if key not in self._open]
        too_old = [one for one in ended_ones if one.at < since]
        for entry in too_old if len(too_old) >= others else _oldest(ended_ones, others):
            await asyncio.to_thread(self._remove_or_log, entry.key)
            del self._entries[entry.key]

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{SUFFIX}"

    def _write(self, entry: Entry) -> None:
        with self._on_disk:
            write_versioned(make_private(self._folder) / f"{entry.key}{SUFFIX}", entry, FORMAT)

    def _write_or_log(self, entry: Entry) -> None:
        try:
            self._write(entry)
        except OSError as error:
            log.warning("notice_not_remembered", key=entry.key, reason=str(error))

    def _remove_or_log(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            log.warning("notice_not_removed", key=key, reason=str(error))


def _oldest(entries: Iterable[Entry], number: int) -> list[Entry]:
    """Return so many of the notices, those that were told first."""
    return nsmallest(number, entries, key=lambda one: one.at) if number > 0 else []


def _stored(folder: Path) -> Iterable[Entry]:
    paths = sorted(folder.glob(f"[!.]*{SUFFIX}")) if folder.is_dir() else []
    for path in paths:
        try:
            yield _parsed(path)
        except (OSError, ValueError) as error:
            log.warning("notice_unreadable", file=str(path), reason=str(error))


def _parsed(path: Path) -> Entry:
    """Return the notice in a file. Raises OSError, and ValueError for one that this version did not write."""
    entry = decode_versioned(Entry, read_file(path), FORMAT)
    if f"{entry.key}{SUFFIX}" != path.name:
        raise ValueError("it has another key than its name says")
    return entry
