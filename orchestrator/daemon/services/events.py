"""Following what happens, to all tasks or to one: events that are on disk first, then new ones as they come."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.event_readers import AllEvents, EventReader, StreamItem, TaskEvents
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import stamp
from orchestrator.storage.records import Cursor
from orchestrator.supervisor.protocols import EventLog

HEARTBEAT = 15.0
"""Seconds between two signs of life while nothing happens."""
MOST_UNSENT = 1024 * 1024
"""Bytes of new events after which a reader that has not taken the ones before is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStart:
    """Where a stream begins: after the event that was received last, after number `after`, or at a time; else now.

    A negative `after` counts from the end.
    """

    last_received: int | None = None
    after: int | None = None
    since: datetime | None = None


class EventService:
    """The use cases of events; used from the supervisor's event loop, which must call `on_decision` after each one."""

    def __init__(self, log: EventLog, index: TaskIndex) -> None:
        self._log, self._index = log, index
        self._changed = asyncio.Event()
        self._is_over = False
        self._sending: dict[asyncio.Future[None], int] = {}

    async def read_all(self, start: StreamStart, only: Collection[str] = ()) -> EventReader:
        """Return a reader of the events of all tasks, or of those named, in the order in which they were decided.

        Raises NoSuchTask and AmbiguousName.
        """
        ids = frozenset([(await self._index.find(name)).id for name in only])
        cursor = await asyncio.to_thread(self._cursor, start)
        return AllEvents(self._log, cursor, ids)

    async def read_task(self, name: str, start: StreamStart) -> EventReader:
        """Return a reader of the events of one task, numbered as its decisions. Raises NoSuchTask, AmbiguousName."""
        task = await self._index.find(name)
        after = start.last_received if start.last_received is not None else start.after
        if after is None:
            after = 0 if start.since else task.seq
        since = stamp(start.since) if start.since and start.last_received is None else ""
        return TaskEvents(self._log, task.id, max(0, task.seq + after) if after < 0 else after, since)

    async def follow(
        self, reader: EventReader, encode: Callable[[StreamItem], bytes], *, wait: bool
    ) -> AsyncIterator[bytes]:
        """Yield some events at a time, encoded, and nothing as a heartbeat; without `wait` only those that are on disk.

        A reader may take long over what is yielded, and there may be many: meanwhile only that is held.
        """
        while True:
            changed = self._changed
            encoded = await asyncio.to_thread(lambda: b"".join(map(encode, reader.read())))
            if encoded:
                yield encoded
                continue
            if self._is_over or not wait:
                return
            while not changed.is_set():
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await changed.wait()
                except TimeoutError:
                    yield b""

    async def is_taken(self, sending: Coroutine[object, object, None]) -> bool:
        """Wait until a reader has taken what is sent; return False, and give up sending, if it is left behind.

        That is so if MOST_UNSENT bytes of events were decided and it has taken nothing of them.
        """
        work = asyncio.ensure_future(sending)
        self._sending[work] = self._log.written + MOST_UNSENT
        try:
            await work
        except asyncio.CancelledError:
            if work in self._sending:
                raise
            return False
        finally:
            self._sending.pop(work, None)
        return True

    def end_streams(self) -> None:
        """End every stream after the events that are on disk."""
        self._is_over = True
        self._changed.set()

    def on_decision(self, _task: Task, _event: Event) -> None:
        """Wake every stream, and give up those whose readers are left behind."""
        self._changed.set()
        self._changed = asyncio.Event()
        while (oldest := next(iter(self._sending.items()), None)) and oldest[1] < self._log.written:
            del self._sending[oldest[0]]
            oldest[0].cancel()

    def _cursor(self, start: StreamStart) -> Cursor:
        after = start.last_received if start.last_received is not None else start.after
        if after is not None:
            return self._log.after(after)
        return self._log.since(stamp(start.since)) if start.since else self._log.after(self._log.last)
