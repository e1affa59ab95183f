"""Following what happens, to all tasks or to one: events that are on disk first, then new ones as they come."""

import asyncio
from collections.abc import AsyncIterator
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

    async def read_all(self, start: StreamStart) -> EventReader:
        """Return a reader of the events of all tasks, in the order in which they were decided."""
        cursor = await asyncio.to_thread(self._cursor, start)
        return AllEvents(self._log, cursor)

    async def read_task(self, name: str, start: StreamStart) -> EventReader:
        """Return a reader of the events of one task, numbered as its decisions. Raises NoSuchTask, AmbiguousName."""
        task = await self._index.find(name)
        after = start.last_received if start.last_received is not None else start.after
        if after is None:
            after = 0 if start.since else task.seq
        since = stamp(start.since) if start.since and start.last_received is None else ""
        return TaskEvents(self._log, task.id, max(0, task.seq + after) if after < 0 else after, since)

    async def follow(self, reader: EventReader, *, wait: bool) -> AsyncIterator[list[StreamItem]]:
        """Yield events as they come, an empty list as a heartbeat; without `wait` end after those on disk."""
        while True:
            changed = self._changed
            found = await asyncio.to_thread(reader.read)
            if found:
                yield found
                continue
            if self._is_over or not wait:
                return
            while not changed.is_set():
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await changed.wait()
                except TimeoutError:
                    yield []

    def end_streams(self) -> None:
        """End every stream after the events that are on disk."""
        self._is_over = True
        self._changed.set()

    def on_decision(self, _task: Task, _event: Event) -> None:
        """Wake every stream."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _cursor(self, start: StreamStart) -> Cursor:
        after = start.last_received if start.last_received is not None else start.after
        if after is not None:
            return self._log.after(after)
        return self._log.since(stamp(start.since)) if start.since else self._log.after(self._log.last)
