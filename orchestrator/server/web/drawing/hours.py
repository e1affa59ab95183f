"""The next hours as SVG: a lane for each run window, with the hours in which it is open, and for each schedule."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

from markupsafe import Markup

WIDTH, LEFT, RIGHT, TOP, LANE = 1100, 170, 16, 22, 24
"""Pixels: the drawing, the room for names, the end, the axis, and the height of a lane."""
STEPS = 8
"""Into how many parts the axis is divided."""
LONGEST_NAME = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A name with spans of time, or with the times at which something happens; `kind` is a class of style."""

    name: str
    kind: str
    spans: Sequence[tuple[datetime, datetime]] = ()
    times: Sequence[datetime] = ()


def draw_hours(lanes: Sequence[Lane], begin: datetime, end: datetime, label: str, now: str) -> Markup:
    """Return the drawing, empty without a lane; `label` says what it is to those who cannot see it."""
    if not lanes:
        return Markup("")
    height = TOP + LANE * len(lanes) + 4
    parts = [*_axis(begin, end, height, now)]
    for index, lane in enumerate(lanes):
        parts += _lane(lane, TOP + LANE * index, begin, end)
    frame = f'class="hours" role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {height}"'
    return Markup(f"<svg {frame}>{''.join(parts)}</svg>")  # noqa: S704 - every text in it is escaped


def _axis(begin: datetime, end: datetime, height: int, now: str) -> Iterator[str]:
    hours = (end - begin).total_seconds() / 3600
    for step in range(STEPS + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / STEPS
        text = escape(now) if step == 0 else f"+{hours * step / STEPS:g} h"
        anchor = "end" if step == STEPS else "middle"
        yield f'<path class="tick" d="M{x:.1f},{TOP - 6}V{height}"/>'
        yield f'<text class="axis" x="{x:.1f}" y="12" text-anchor="{anchor}">{text}</text>'


def _lane(lane: Lane, y: int, begin: datetime, end: datetime) -> Iterator[str]:
    name = lane.name if len(lane.name) <= LONGEST_NAME else f"{lane.name[: LONGEST_NAME - 1]}…"
    yield f'<text class="lane" x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>'
    yield f'<path class="tick" d="M{LEFT},{y + LANE - 2}H{WIDTH - RIGHT}"/>'
    for start, stop in lane.spans:
        left, right = _x(start, begin, end), _x(stop, begin, end)
        yield (
            f'<rect class="{lane.kind}" x="{left:.1f}" y="{y + 4}" width="{max(2.0, right - left):.1f}" height="14">'
            f"<title>{escape(lane.name)}: {start:%H:%M}–{stop:%H:%M} UTC</title></rect>"
        )
    for at in lane.times:
        x = _x(at, begin, end)
        yield (
            f'<circle class="{lane.kind}" cx="{x:.1f}" cy="{y + 11}" r="5">'
            f"<title>{escape(lane.name)}: {at:%H:%M} UTC</title></circle>"
        )


def _x(at: datetime, begin: datetime, end: datetime) -> float:
    share = (at - begin) / (end - begin)
    return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))
