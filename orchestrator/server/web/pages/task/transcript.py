"""What an agent said and did: a window of its transcript, which follows the agent while it works."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import Field

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.transcript_windows import KINDS, TranscriptWindow, WindowQuery
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.routes.texts import window_view
from orchestrator.server.schemas.base import View
from orchestrator.server.web.content.entries import shown_entries
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

PAGE = 100
"""Entries of one page."""
MOST_STEPS = 16
"""How many requests' worth of a transcript are searched for the next error."""

Number = Annotated[int, Path(ge=0, le=10**9)]


class PageQuery(View):
    """Which part of the transcript: from an offset on, or before it; by default its end; and a filter."""

    at: int | None = Field(default=None, ge=0, lt=2**62)
    backward: bool = False
    kind: tuple[str, ...] = Field(default=(), max_length=len(KINDS))
    text: str = Field(default="", max_length=500)
    none: bool = False

    def window(self) -> WindowQuery:
        """Return the window that is meant."""
        kinds = frozenset(self.kind) | ({"result", "error"} if "tool" in self.kind else frozenset())
        backward = self.backward or self.at is None
        return WindowQuery(at=self.at, backward=backward, limit=PAGE, kinds=kinds, text=self.text)

    def address(self, **changes: object) -> str:
        """Return the same query with changes, to be put behind an address."""
        values = {"kind": list(self.kind), "text": self.text, **changes}
        return "?" + urlencode({name: value for name, value in values.items() if value not in ("", [])}, doseq=True)


class JumpQuery(View):
    """Where to look for an error from."""

    at: int = Field(default=0, ge=0, lt=2**62)
    backward: bool = False


Shown = Annotated[PageQuery, Query()]


@router.get("/tasks/{name}/transcript")
async def newest(request: Request, service: TheService, name: str, shown: Shown) -> Response:
    """Show what the newest agent said."""
    attempts = await service.history.transcripts.attempts(name)
    if not attempts:
        header = await header_of(service, name, "transcript")
        return render(request, "transcript/none.html", **header)
    return await transcript(request, service, name, attempts[-1].attempt, shown)


@router.get("/tasks/{name}/transcript/{attempt}")
async def transcript(request: Request, service: TheService, name: str, attempt: Number, shown: Shown) -> Response:
    """Show a part of what an agent said."""
    header = await header_of(service, name, "transcript")
    attempts = await service.history.transcripts.attempts(name)
    window = await service.history.windows.window(name, attempt, shown.window())
    is_end = shown.at is None or (not shown.backward and not window.more)
    parts = (
        await _entries(window)
        | _moves(window, shown, is_end=is_end)
        | {"attempts": [one.attempt for one in attempts], "kinds": KINDS, "shown": shown}
    )
    return render(request, "transcript/page.html", **(header | parts))


@router.get("/tasks/{name}/transcript/{attempt}/tail")
async def tail(request: Request, service: TheService, name: str, attempt: Number, shown: Shown) -> Response:
    """Show what was said since the page was shown, and where to go on."""
    window = await service.history.windows.window(name, attempt, shown.window())
    parts = await _entries(window) | _moves(window, shown, is_end=True)
    return render(request, "transcript/_entries.html", home=f"/tasks/{name}", **parts)


@router.get("/tasks/{name}/transcript/{attempt}/error")
async def jump(service: TheService, name: str, attempt: Number, wanted: Annotated[JumpQuery, Query()]) -> Response:
    """Lead to the next error, or to the one before."""
    at: int | None = wanted.at
    for _ in range(MOST_STEPS):
        query = WindowQuery(at=at, backward=wanted.backward, limit=1, kinds=frozenset({"error", "denied"}))
        window = await service.history.windows.window(name, attempt, query)
        if window.entries:
            found = window.entries[-1].offset if wanted.backward else window.entries[0].offset
            return _led(f"/tasks/{name}/transcript/{attempt}?at={found}#o-{found}")
        if not window.more:
            break
        at = window.begin if wanted.backward else window.end
    return _led(f"/tasks/{name}/transcript/{attempt}?at={wanted.at}&none=true")


def _led(to: str) -> Response:
    return RedirectResponse(to, status_code=303)


async def _entries(window: TranscriptWindow) -> dict[str, Any]:
    view = window_view(window)
    return {"entries": await aside(shown_entries, view.entries), "window": view, "attempt": view.attempt}


def _moves(window: TranscriptWindow, shown: PageQuery, *, is_end: bool) -> dict[str, Any]:
    """Return where the page leads: to what comes before and after it, and to what is still to be said."""
    earlier, later = shown.address(at=window.begin, backward="true"), shown.address(at=window.end)
    is_backward = shown.window().backward
    offsets = [one.offset for one in window.entries] or [window.begin]
    return {
        "earlier": earlier,
        "later": "" if is_end else later,
        "more": later if is_end and not window.ended else "",
        "search_on": (earlier if is_backward else later) if window.more else "",
        "next_error": f"?at={offsets[0] + 1}",
        "error_before": f"?at={offsets[0]}&backward=true",
        "found_none": shown.none,
    }
