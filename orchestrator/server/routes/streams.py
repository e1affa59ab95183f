"""What happens, as Server-Sent Events: to all tasks, or to one.

An event's `id` is its number in the stream; after a broken connection the stream goes on behind the `Last-Event-ID`.
It begins with an id alone, so that one which broke before its first event goes on where it had begun.
The framework has streams of its own, with tasks and buffers between; measured, a reader who leaves while an event is on
its way to him ends one of those with an error. Here an event is only made when the one before is on its way.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import stamp
from orchestrator.server.backend import Backend
from orchestrator.server.routes.tasks import TheBackend, TheTask
from orchestrator.server.schemas.streams import GapView, StreamFilter
from orchestrator.server.stream_readers import AllDecisions, Beginning, EventRenderer, OwnDecisions, Told
from orchestrator.storage.records import Cursor
from orchestrator.supervisor.protocols import EventLog

HEARTBEAT = 15.0
"""Seconds between two signs of life where nothing happens."""

router = APIRouter(prefix="/api", tags=["events"])


class Reader(Protocol):
    """Whoever reads on behind a number: the next decisions, none only at the end."""

    @property
    def number(self) -> int: ...
    def read(self) -> list[Told]: ...


class Streams:
    """What all streams share: the committed decisions, and the word that there is a new one. Raises UnfitIndex."""

    def __init__(self, backend: Backend) -> None:
        self.log = backend.store.events
        self._changed = asyncio.Event()
        self._over = False
        backend.supervisor.listen(self._decided)

    def end(self) -> None:
        """Let every stream end when it has told what there is."""
        self._over = True
        self._changed.set()

    async def follow(self, reader: Reader, wanted: StreamFilter) -> AsyncIterator[bytes]:
        """What a reader reads, as it comes."""
        yield format_sse_event(id=str(reader.number))
        while True:
            changed = self._changed
            found = await asyncio.to_thread(reader.read)
            for one in found:
                yield _sent(one, wanted)
            if not found and (self._over or not wanted.follow):
                return
            while not found and not changed.is_set():
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await changed.wait()
                except TimeoutError:
                    yield KEEPALIVE_COMMENT

    def _decided(self, _task: Task, _event: Event) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def streams_of(request: Request) -> Streams:
    """The streams that the app was made with."""
    streams: Streams = request.app.state.streams
    return streams


TheStreams = Annotated[Streams, Depends(streams_of)]
Wanted = Annotated[StreamFilter, Query()]
LastId = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**62)]


@router.get("/events", response_class=StreamingResponse)
async def events(backend: TheBackend, streams: TheStreams, wanted: Wanted, last_id: LastId = None) -> StreamingResponse:
    """What happens to all tasks, in the order in which it was decided."""
    begin = await asyncio.to_thread(_begin, streams.log, wanted, last_id)
    telling = EventRenderer(redact=backend.redact, whole=wanted.whole)
    reader = AllDecisions(streams.log, begin, telling)
    return _stream(streams.follow(reader, wanted))


@router.get("/tasks/{name}/stream", response_class=StreamingResponse)
async def stream(
    task: TheTask, backend: TheBackend, streams: TheStreams, wanted: Wanted, last_id: LastId = None
) -> StreamingResponse:
    """What happens to one task; its events are numbered as its decisions are."""
    after = last_id if last_id is not None else wanted.from_
    if after is None:
        after = 0 if wanted.since else task.seq
    begin = max(0, task.seq + after) if after < 0 else after
    since = stamp(wanted.since) if wanted.since and last_id is None else ""
    telling = EventRenderer(redact=backend.redact, whole=wanted.whole)
    reader = OwnDecisions(streams.log, task.id, Beginning(after=begin, since=since), telling)
    return _stream(streams.follow(reader, wanted))


def _stream(content: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(
        content, media_type="text/event-stream", headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    )


def _sent(one: Told, wanted: StreamFilter) -> bytes:
    data = one.model_dump_json(by_alias=True, exclude=None if wanted.whole else {"event", "change"})
    kind = "gap" if isinstance(one, GapView) else one.type
    return format_sse_event(id=str(one.number), event=kind, data_str=data)


def _begin(log: EventLog, wanted: StreamFilter, last_id: int | None) -> Cursor:
    """Where a stream over all tasks begins: where the reader had stopped, else where it wants to, else now."""
    if last_id is not None:
        return log.after(last_id)
    if wanted.from_ is not None:
        return log.after(wanted.from_)
    return log.since(stamp(wanted.since)) if wanted.since else log.after(log.last)
