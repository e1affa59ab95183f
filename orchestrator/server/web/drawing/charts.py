"""A chart as SVG: a bar for each day, stacked of the values of several series."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate

from markupsafe import Markup

WIDTH, HEIGHT = 480, 180
LEFT, RIGHT, TOP, BOTTOM = 58, 4, 12, 24
"""Pixels: the drawing, and the room for its axes."""
COLOURS = 7
"""How many series have a colour of their own (class `series-1` and on); all others share `series-0`."""
LINES = 4
"""How many steps the vertical axis has at most."""
MOST_DAY_LABELS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The values of one name, one for each day."""

    name: str
    values: Sequence[float]


def draw_bars(days: Sequence[str], series: Sequence[Series], show: Callable[[float], str], label: str) -> Markup:
    """Return the chart; `show` writes a value, `label` says what is shown to those who cannot see it."""
    sums = [sum(one.values[at] for one in series) for at in range(len(days))]
    step = _step(max(sums, default=0.0))
    top = step * LINES
    while top - step >= max(sums, default=0.0) and top > step:
        top -= step
    parts = [*_grid(top, step, show), *_bars(days, series, top, show), *_days(days)]
    frame = f'class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return Markup(f"<svg {frame}>{''.join(parts)}</svg>")  # noqa: S704 - every text in it is escaped


def colour_of(index: int) -> str:
    """Return the class of the series at an index."""
    return f"series-{index + 1 if index < COLOURS else 0}"


def _step(highest: float) -> float:
    """Return a round step with which the vertical axis reaches the highest value."""
    if highest <= 0:
        return 1.0
    unit = 1.0
    while unit * LINES >= highest:
        unit /= 10
    while unit * 10 * LINES < highest:
        unit *= 10
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor * LINES >= highest)


def _grid(top: float, step: float, show: Callable[[float], str]) -> Iterator[str]:
    value = 0.0
    while value <= top + step / 2:
        y = _y(value, top)
        yield f'<path class="grid" d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="axis" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(show(value))}</text>'
        value += step


def _bars(days: Sequence[str], series: Sequence[Series], top: float, show: Callable[[float], str]) -> Iterator[str]:
    room = (WIDTH - LEFT - RIGHT) / max(1, len(days))
    width = min(48.0, room * 0.7)
    for at, day in enumerate(days):
        x = LEFT + room * at + (room - width) / 2
        values = [one.values[at] for one in series]
        for index, (value, end) in enumerate(zip(values, accumulate(values), strict=True)):
            if value > 0:
                title = escape(f"{day}, {series[index].name}: {show(value)}")
                y, height = _y(end, top), value / top * (HEIGHT - TOP - BOTTOM)
                yield (
                    f'<rect class="{colour_of(index)}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
                    f' height="{max(0.5, height):.1f}"><title>{title}</title></rect>'
                )


def _days(days: Sequence[str]) -> Iterator[str]:
    room = (WIDTH - LEFT - RIGHT) / max(1, len(days))
    every = -(-len(days) // MOST_DAY_LABELS)
    for at, day in enumerate(days):
        if (len(days) - 1 - at) % every == 0:
            x = LEFT + room * (at + 0.5)
            yield f'<text class="axis" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(day[5:])}</text>'


def _y(value: float, top: float) -> float:
    return TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM)
