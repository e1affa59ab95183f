"""One stream of changes for each open page, as Server-Sent Events.

It says which tasks have changed, not how: the parts of the page that show them ask for themselves again. An event's id
is a mark, so that a page which was away for a while is told whether it missed anything.
"""

from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from orchestrator.daemon.inspection.changes import Changes
from orchestrator.server.routes.dependencies import StreamReader, TheReader, TheService
from orchestrator.server.web.page_route import PageRoute

router = APIRouter(route_class=PageRoute)

HEARTBEAT = 15.0
"""Seconds between two signs of life while nothing changes."""
MOST_NAMED = 100
"""How many tasks an event names; of more it says only that there are many."""

Mark = Annotated[str | None, Query(max_length=40)]
LastMark = Annotated[str | None, Header(alias="Last-Event-ID", max_length=40)]


@router.get("/live")
async def live(service: TheService, reader: TheReader, last: LastMark = None, after: Mark = None) -> StreamingResponse:
    """Stream which tasks have changed after a mark, or from now on."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    content = _changes(service.changes, last or after, reader)
    return StreamingResponse(content, media_type="text/event-stream", headers=headers)


async def _changes(changes: Changes, last: str | None, reader: StreamReader) -> AsyncIterator[bytes]:
    mark = last or changes.mark
    yield format_sse_event(id=mark)
    while True:
        try:
            change = await changes.after(mark, HEARTBEAT)
        except EOFError:
            return
        if not reader.is_admitted():
            return
        if change is None:
            yield KEEPALIVE_COMMENT
            continue
        mark = change.mark
        named = None if change.tasks is None or len(change.tasks) > MOST_NAMED else sorted(change.tasks)
        yield format_sse_event(id=mark, event="tasks", data_str=orjson.dumps(named).decode())
