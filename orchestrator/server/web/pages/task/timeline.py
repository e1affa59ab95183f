"""A task's timeline: drawn, as a table of stages, and turn by turn with what each used."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.timeline import Interval, Lane, Timeline
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.records import TimelineFilter
from orchestrator.server.web.drawing.timeline import draw_timeline, span_text
from orchestrator.server.web.languages import language_of, translate
from orchestrator.server.web.page_route import PageRoute
from orchestrator.server.web.pages.task.header import header_of
from orchestrator.server.web.templates import render

router = APIRouter(route_class=PageRoute)

MOST_TURNS = 200
MOST_STAGES = 60
"""Rows of the tables; the newest are shown."""
MOST_STRETCHES = 12
"""How many of the newest stages can be zoomed to by a link."""

Within = Annotated[TimelineFilter, Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of time that a link leads to."""

    label: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An interval as a row of a table; `share` is that of the whole, from 0 to 1."""

    label: str
    number: int | None
    begin: datetime
    seq: int
    outcome: str
    lasted: str
    share: float
    tokens: int
    usd: float


@router.get("/tasks/{name}/timeline")
async def timeline(request: Request, service: TheService, name: str, within: Within) -> Response:
    """Show what the task did when, or in a stretch of time."""
    header = await header_of(service, name, "timeline")
    whole = await service.history.timelines.timeline(name)
    shown = whole.within(within.from_, within.to)
    language, home = language_of(request), str(header["home"])

    def words(text: str) -> str:
        return translate(language, text.replace("_", " "), "words")

    parts = {
        "drawing": await aside(draw_timeline, shown, home, words),
        "shown": shown,
        "query": _query(within.from_, within.to),
        "here": f"{home}/timeline{_query(within.from_, within.to)}",
        "follows": any(one.end is None for one in whole.intervals),
        "stretches": _stretches(whole),
        **_tables(shown, whole.end),
    }
    is_part = "hx-request" in request.headers
    return render(request, "task/_timeline.html" if is_part else "task/timeline.html", **(header | parts))


def _stretches(whole: Timeline) -> list[Stretch]:
    hour_ago = whole.end - timedelta(hours=1)
    last = [Stretch(label="last hour", query=_query(hour_ago, None))] if hour_ago > whole.begin else []
    stages = whole.lane(Lane.STAGE)[-MOST_STRETCHES:]
    zooms = (Stretch(label=one.label, query=_query(one.begin, one.end)) for one in stages)
    return [Stretch(label="whole", query=""), *last, *zooms]


def _tables(shown: Timeline, now: datetime) -> dict[str, Any]:
    turns, stages = shown.lane(Lane.TURN), shown.lane(Lane.STAGE)[-MOST_STAGES:]
    newest = turns[-MOST_TURNS:]
    most = max((one.tokens for one in newest), default=0)
    return {
        "stages": [_row(one, now, _share(one, shown)) for one in stages],
        "turns": [_row(one, now, one.tokens / (most or 1)) for one in reversed(newest)],
        "turn_count": len(turns),
        "tokens": sum(one.tokens for one in turns),
        "usd": sum(one.usd for one in turns),
    }


def _row(one: Interval, now: datetime, share: float) -> Row:
    return Row(
        label=one.label,
        number=one.number,
        begin=one.begin,
        seq=one.seq,
        outcome=one.outcome,
        lasted=span_text((one.end or now) - one.begin),
        share=min(1.0, max(0.0, share)),
        tokens=one.tokens,
        usd=one.usd,
    )


def _share(one: Interval, shown: Timeline) -> float:
    """Return the share of the stretch shown that an interval takes."""
    within = min(one.end or shown.end, shown.end) - max(one.begin, shown.begin)
    return within.total_seconds() / ((shown.end - shown.begin).total_seconds() or 1)


def _query(begin: datetime | None, end: datetime | None) -> str:
    """Return the end of an address that shows a stretch of time."""
    given = {"from": begin, "to": end}
    stamps = {name: f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" for name, at in given.items() if at is not None}
    return f"?{urlencode(stamps)}" if stamps else ""
