"""A task's timeline as SVG: a lane for each kind of interval, each bar a link to its line of the journal.

Where more bars than can be told apart lie side by side, they are drawn as one that says how many it stands for. How
narrow is too narrow grows until the drawing is small enough.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from unicodedata import east_asian_width

from markupsafe import Markup

from orchestrator.daemon.history.timeline import Interval, Lane, Moment, Timeline

LARGEST = 200_000
"""Characters of a drawing."""
LEFT, WIDTH, RIGHT = 92.0, 900.0, 8.0
TOP, ROW, BAR = 26.0, 24.0, 18.0
LETTER = 6.6
"""The width of a letter of a label, in units of the drawing."""
MOST_ROWS = 4
"""Rows of a lane whose intervals overlap; what has no room shares the last one."""

STEPS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 2592000, 31536000)
"""Seconds between two marks of the axis."""
MOST_STEPS = 9

_CODED = frozenset({Lane.PAUSE, Lane.LIMIT, Lane.FREEZE})
"""Lanes whose labels are words of this program."""
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML does not allow, escaped or not."""

Words = Callable[[str], str]
"""Gives a word of this program in the reader's language."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """Some intervals that are drawn as one; most often it is just one."""

    x: float
    end: float
    of: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sheet:
    """What is drawn on: which stretch of time, where the journal is, in which language."""

    begin: datetime
    end: datetime
    journal: str
    words: Words

    def x(self, moment: datetime) -> float:
        """Where a moment is, within the drawing."""
        whole = (self.end - self.begin).total_seconds() or 1.0
        share = (moment - self.begin).total_seconds() / whole
        return LEFT + WIDTH * min(1.0, max(0.0, share))


def draw_timeline(found: Timeline, task: str, words: Words) -> Markup:
    """Return the timeline of a task as SVG, at most LARGEST characters; `task` is the address of the task's page."""
    sheet = _Sheet(begin=found.begin, end=found.end, journal=f"{task}/journal", words=words)
    drawn, unit = _draw(found, sheet, 1.0), 1.0
    while len(drawn) > LARGEST and unit < WIDTH:
        unit *= 2
        drawn = _draw(found, sheet, unit)
    return Markup(drawn)  # noqa: S704 - every text in it is escaped


def _draw(found: Timeline, sheet: _Sheet, unit: float) -> str:
    parts, y = [], TOP
    for lane in Lane:
        rows = _rows(found.lane(lane), sheet, unit)
        if rows:
            parts.append(f'<text class="lane-name" x="0" y="{y + 13:g}">{_safe(sheet.words(lane))}</text>')
        for row in rows:
            parts += [_bar(bar, y, sheet) for bar in row]
            y += ROW
    height = y + 6
    begin, end = (_stamp(moment) for moment in (found.begin, found.end))
    head = (
        f'<svg class="timeline" viewBox="0 0 {LEFT + WIDTH + RIGHT:g} {height:g}" role="group"'
        f' aria-label="{_safe(sheet.words("timeline"))}" data-from="{begin}" data-to="{end}"'
        f' data-left="{LEFT:g}" data-width="{WIDTH:g}">'
    )
    return "".join((head, *_axis(sheet, height), *parts, *_moments(found.moments, sheet, height, unit), "</svg>"))


def _axis(sheet: _Sheet, height: float) -> list[str]:
    """Return the marks of time, in UTC."""
    whole = (sheet.end - sheet.begin).total_seconds()
    step = next((step for step in STEPS if whole / step <= MOST_STEPS), STEPS[-1])
    first = sheet.begin.timestamp() // step * step + step
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%m-%d"
    parts = [f'<text class="axis-name" x="0" y="12">UTC {sheet.begin.astimezone(UTC):%m-%d}</text>']
    for number in range(MOST_STEPS + 1):
        moment = datetime.fromtimestamp(first + number * step, UTC)
        if moment > sheet.end:
            break
        x = sheet.x(moment)
        parts.append(f'<path class="tick" d="M{x:.1f} 17V{height:g}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="12">{moment.strftime(form)}</text>')
    return parts


def _rows(intervals: Iterable[Interval], sheet: _Sheet, unit: float) -> list[list[_Bar]]:
    """Return the bars of a lane, in as many rows as overlapping ones need."""
    rows: list[list[Interval]] = []
    for one in intervals:
        free = next((row for row in rows if row[-1].end is not None and row[-1].end <= one.begin), None)
        if free is not None:
            free.append(one)
        elif len(rows) < MOST_ROWS:
            rows.append([one])
        else:
            rows[-1].append(one)
    return [_merged(row, sheet, unit) for row in rows]


def _merged(row: Sequence[Interval], sheet: _Sheet, unit: float) -> list[_Bar]:
    """Return a row's bars, those that are narrower than a unit together with their neighbours within it."""
    bars: list[_Bar] = []
    pending: list[Interval] = []
    begin = end = 0.0
    for one in row:
        x, until = sheet.x(one.begin), sheet.x(one.end or sheet.end)
        is_narrow = until - x < unit
        if pending and (not is_narrow or until - begin >= unit):
            bars.append(_Bar(x=begin, end=end, of=tuple(pending)))
            pending = []
        if not is_narrow:
            bars.append(_Bar(x=x, end=until, of=(one,)))
            continue
        if not pending:
            begin = x
        pending.append(one)
        end = max(until, x)
    return [*bars, _Bar(x=begin, end=end, of=tuple(pending))] if pending else bars


def _bar(bar: _Bar, y: float, sheet: _Sheet) -> str:
    first, width = bar.of[0], max(1.0, bar.end - bar.x)
    names = ["bar", first.lane.value]
    names += [name for name, holds in (("open", bar.of[-1].end is None), ("many", len(bar.of) > 1)) if holds]
    if outcome := _outcome(bar.of):
        names.append(outcome)
    label = _label(first, sheet.words) if len(bar.of) == 1 else f"{sheet.words(first.lane)} ({len(bar.of)})"
    shown = f'<text x="{bar.x + 4:.1f}" y="{y + 13:g}">{_safe(label)}</text>' if _width(label) + 8 <= width else ""
    order = "" if first.lane is Lane.STAGE else ' tabindex="-1"'
    return (
        f'<a href="{_line(sheet, first.seq)}"{order}><title>{_safe(_story(bar.of, label, sheet))}</title>'
        f'<rect class="{_safe(" ".join(names))}" x="{bar.x:.1f}" y="{y:g}" width="{width:.1f}" height="{BAR:g}"/>'
        f"{shown}</a>"
    )


def _moments(moments: Sequence[Moment], sheet: _Sheet, height: float, unit: float) -> list[str]:
    """Return marks for what happened at once; of those within a unit the first."""
    parts: list[str] = []
    last = -unit
    for one in moments:
        x = sheet.x(one.at)
        if x - last < unit:
            continue
        last = x
        title = f"{sheet.words(one.kind)}: {one.label} · {_clock(one.at)} UTC"
        parts.append(
            f'<a href="{_line(sheet, one.seq)}" tabindex="-1"><title>{_safe(title)}</title>'
            f'<path class="moment {one.kind.value}" d="M{x:.1f} 20V{height - 4:g}"/>'
            f'<circle class="moment {one.kind.value}" cx="{x:.1f}" cy="20" r="4"/></a>'
        )
    return parts


def _label(one: Interval, words: Words) -> str:
    if one.lane in _CODED:
        return words(one.label)
    if one.lane in {Lane.AGENT, Lane.TURN}:
        return f"{one.label} {one.number}"
    return one.label


def _outcome(of: Sequence[Interval]) -> str:
    """Return whether bars ended well, as a class; the worst of several."""
    words = {one.outcome.lower() for one in of}
    if words & {"fail", "failed", "lost"}:
        return "bad"
    if words & {"warn", "stopped", "skipped", "interrupted", "rejected", "changes_requested"}:
        return "warn"
    return "good" if words & {"pass"} else ""


def _story(of: Sequence[Interval], label: str, sheet: _Sheet) -> str:
    """Return all that a bar stands for, in one line."""
    first, last = of[0], of[-1]
    begin, end = first.begin, last.end or sheet.end
    parts = [f"{sheet.words(first.lane)}: {label}" if len(of) == 1 else label]
    if len(of) == 1 and first.outcome:
        parts.append(sheet.words(first.outcome))
    if tokens := sum(one.tokens for one in of):
        parts.append(f"{tokens:,} {sheet.words('tokens')}, ${sum(one.usd for one in of):.2f}")
    until = _clock(end) if last.end else "…"
    parts += [span_text(end - begin), f"{_clock(begin)} – {until} UTC"]
    return " · ".join(parts)


def span_text(span: timedelta) -> str:
    """Return how long something lasted, in its two largest units; below a minute with a decimal."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min {int(seconds % 60)} s"


def _line(sheet: _Sheet, seq: int) -> str:
    return f"{_safe(sheet.journal)}?seq={seq}#seq-{seq}"


def _width(label: str) -> float:
    return LETTER * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in label)


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%m-%d %H:%M:%S}"


def _stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _safe(text: str) -> str:
    return escape(_UNFIT.sub("\ufffd", text))
