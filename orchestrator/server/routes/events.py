"""What happens, as Server-Sent Events: to all tasks, or to one.

An event's `id` is its number in the stream; after a broken connection the stream continues after the `Last-Event-ID`.
A stream begins with an id alone, so that one which breaks before its first event continues where it began.

The framework has streams of its own, with tasks and buffers in between; a reader who leaves while an event is being
sent makes one of those end with an error. Here some events are made only when those before them have been sent.

A reader that takes nothing while much happens is cut off. It continues after the last event that it got, as after any
other broken connection. Whoever may no longer ask is sent nothing more: the stream ends.
"""

from collections.abc import AsyncIterator, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.types import Message, Send

from orchestrator.daemon.service import Service
from orchestrator.daemon.services.event_readers import EventReader, LoggedEvent, StreamItem, damaged_line
from orchestrator.daemon.services.events import EventService, StreamStart
from orchestrator.daemon.services.records import masked_object
from orchestrator.formats.camel_case import camel_keys, camel_patch
from orchestrator.formats.codec import JsonObject
from orchestrator.server.openapi.refusals import NAMED, refuses
from orchestrator.server.routes.dependencies import StreamReader, TaskName, TheReader, TheService
from orchestrator.server.schemas.base import Redact, to_view
from orchestrator.server.schemas.events import EventsFilter, EventView, GapView, StreamFilter

router = APIRouter(prefix="/api", tags=["events"])

Wanted = Annotated[StreamFilter, Query()]
_FACTS = ("seq", "timestamp", "type", "from", "to", "trigger")

LastId = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**62)]


class EventResponse(StreamingResponse):
    """Server-Sent Events."""

    media_type = "text/event-stream"


class EventStream(EventResponse):
    """A stream whose connection is aborted when its reader is left behind."""

    def __init__(self, content: AsyncIterator[bytes], events: EventService, abort: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(content, headers=headers)
        self._content, self._events, self._abort = content, events, abort

    async def stream_response(self, send: Send) -> None:
        """Send everything in turn."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._content:
            message: Message = {"type": "http.response.body", "body": chunk, "more_body": True}
            if not await self._events.is_taken(_sending(send, message)):
                self._abort()
                return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@router.get("/events", response_class=EventResponse, responses=refuses(*NAMED))
async def events(
    service: TheService, reader: TheReader, wanted: Annotated[EventsFilter, Query()], last_id: LastId = None
) -> EventResponse:
    """Stream what happens to all tasks, or to those named, in the order in which it was decided."""
    found = await service.events.read_all(_start(wanted, last_id), wanted.task)
    return _stream(service, found, wanted, reader)


@router.get("/tasks/{name}/stream", response_class=EventResponse)
async def stream(
    name: TaskName, service: TheService, reader: TheReader, wanted: Wanted, last_id: LastId = None
) -> EventResponse:
    """Stream what happens to one task; its events are numbered as its decisions are."""
    return _stream(service, await service.events.read_task(name, _start(wanted, last_id)), wanted, reader)


def _start(wanted: StreamFilter, last_id: int | None) -> StreamStart:
    return StreamStart(last_received=last_id, after=wanted.from_, since=wanted.since)


async def _sending(send: Send, message: Message) -> None:
    await send(message)


def _stream(service: Service, found: EventReader, wanted: StreamFilter, reader: StreamReader) -> EventResponse:
    def encode(item: StreamItem) -> bytes:
        return _sent(item, wanted.whole, service.redact)

    async def content() -> AsyncIterator[bytes]:
        yield format_sse_event(id=str(found.number))
        async for encoded in service.events.follow(found, encode, wait=wanted.follow):
            if not reader.is_admitted():
                return
            yield encoded or KEEPALIVE_COMMENT

    return EventStream(content(), service.events, reader.abort)


def _sent(item: StreamItem, whole: bool, redact: Redact) -> bytes:
    view = _view(item, whole, redact)
    data = view.model_dump_json(by_alias=True, exclude=None if whole else {"event", "change"})
    kind = "gap" if isinstance(view, GapView) else view.type
    return format_sse_event(id=str(view.number), event=kind, data_str=data)


def _view(item: StreamItem, whole: bool, redact: Redact) -> EventView | GapView:
    if not isinstance(item, LoggedEvent):
        return GapView(number=item.number, reason=item.reason, deleted=item.deleted)
    line = item.line
    try:
        shown: JsonObject = {name: line[name] for name in _FACTS} | {"metadata": camel_keys(line["metadata"])}
        if whole:
            details: JsonObject = {"event": camel_keys(line["event"]), "change": camel_patch(line["change"])}
            shown |= masked_object(details, redact)
        shown |= {"number": item.number, "task": line["task_id"], "text": item.text}
        return to_view(EventView, shown, redact)
    except (KeyError, TypeError, ValueError) as error:
        return GapView(number=item.number, reason=damaged_line(error))
