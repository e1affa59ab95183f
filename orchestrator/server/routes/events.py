"""What happens, as Server-Sent Events: to all tasks, or to one.

An event's `id` is its number in the stream; after a broken connection the stream continues after the `Last-Event-ID`.
A stream begins with an id alone, so that one which breaks before its first event continues where it began.

The framework has streams of its own, with tasks and buffers in between; a reader who leaves while an event is being
sent makes one of those end with an error. Here an event is made only when the one before it has been sent.
"""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from orchestrator.daemon.service import Service
from orchestrator.daemon.services.event_readers import EventReader, LoggedEvent, StreamItem, damaged_line
from orchestrator.daemon.services.events import StreamStart
from orchestrator.daemon.services.records import masked_object
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import Redact, to_view
from orchestrator.server.schemas.events import EventView, GapView, StreamFilter

router = APIRouter(prefix="/api", tags=["events"])

Wanted = Annotated[StreamFilter, Query()]
_FACTS = ("seq", "timestamp", "type", "from", "to", "trigger", "metadata")

LastId = Annotated[int | None, Header(alias="Last-Event-ID", ge=0, lt=2**62)]


@router.get("/events", response_class=StreamingResponse)
async def events(service: TheService, wanted: Wanted, last_id: LastId = None) -> StreamingResponse:
    """Stream what happens to all tasks, in the order in which it was decided."""
    return _stream(service, await service.events.read_all(_start(wanted, last_id)), wanted)


@router.get("/tasks/{name}/stream", response_class=StreamingResponse)
async def stream(name: str, service: TheService, wanted: Wanted, last_id: LastId = None) -> StreamingResponse:
    """Stream what happens to one task; its events are numbered as its decisions are."""
    return _stream(service, await service.events.read_task(name, _start(wanted, last_id)), wanted)


def _start(wanted: StreamFilter, last_id: int | None) -> StreamStart:
    return StreamStart(last_received=last_id, after=wanted.from_, since=wanted.since)


def _stream(service: Service, reader: EventReader, wanted: StreamFilter) -> StreamingResponse:
    async def content() -> AsyncIterator[bytes]:
        yield format_sse_event(id=str(reader.number))
        async for items in service.events.follow(reader, wait=wanted.follow):
            for item in items:
                yield _sent(item, wanted.whole, service.redact)
            if not items:
                yield KEEPALIVE_COMMENT

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(content(), media_type="text/event-stream", headers=headers)


def _sent(item: StreamItem, whole: bool, redact: Redact) -> bytes:
    view = _view(item, whole, redact)
    data = view.model_dump_json(by_alias=True, exclude=None if whole else {"event", "change"})
    kind = "gap" if isinstance(view, GapView) else view.type
    return format_sse_event(id=str(view.number), event=kind, data_str=data)


def _view(item: StreamItem, whole: bool, redact: Redact) -> EventView | GapView:
    if not isinstance(item, LoggedEvent):
        return GapView(number=item.number, reason=item.reason, deleted=item.deleted)
    line, details = item.line, ("event", "change") if whole else ()
    try:
        shown = {name: line[name] for name in _FACTS} | masked_object({name: line[name] for name in details}, redact)
        shown |= {"number": item.number, "task": line["task_id"], "text": item.text}
        return to_view(EventView, shown, redact)
    except (KeyError, TypeError, ValueError) as error:
        return GapView(number=item.number, reason=damaged_line(error))
