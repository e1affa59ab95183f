"""Parts of pages for which many readers ask at the same moment, because something changed: each is rendered once.

A route whose answer depends on nothing of the reader but scope and language has the mark SHARED.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from time import monotonic

from fastapi import Request, Response

from orchestrator.daemon.inspection.changes import Changes
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.web.languages import language_of
from orchestrator.server.web.templates import page_of

SHARED = {"x-shared": True}
LONGEST = 2.0
"""Seconds that a part is kept while no task changes: numbers such as tokens rise without a decision."""
MOST = 200
"""How many parts are kept."""


@dataclass(frozen=True, slots=True)
class _Part:
    mark: str
    until: float
    answer: asyncio.Future[Response]


class SharedParts:
    """The parts that were rendered since the last change."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._parts: dict[Hashable, _Part] = {}

    async def get(self, request: Request, make: Callable[[], Awaitable[Response]]) -> Response:
        """Return the part that a request means, from before if nothing has changed since. Raises what `make` raises."""
        key = (request.url.path, request.url.query, page_of(request), language_of(request), caller_of(request).scope)
        part = self._parts.get(key)
        if part is None or part.mark != self._changes.mark or part.until < monotonic():
            if len(self._parts) >= MOST:
                self._parts.clear()
            part = _Part(self._changes.mark, monotonic() + LONGEST, asyncio.ensure_future(make()))
            self._parts[key] = part
            part.answer.add_done_callback(lambda answer: self._drop_failed(key, answer))
        answer = await asyncio.shield(part.answer)  # whoever asked first may leave
        # its own headers: whoever compresses an answer changes them
        return Response(answer.body, status_code=answer.status_code, headers=dict(answer.headers))

    def _drop_failed(self, key: Hashable, answer: asyncio.Future[Response]) -> None:
        has_failed = answer.cancelled() or answer.exception() is not None or answer.result().status_code != 200
        part = self._parts.get(key)
        if has_failed and part is not None and part.answer is answer:
            del self._parts[key]
