"""A directed graph as SVG: boxes in layers from the top to the bottom, and arrows between them."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from orchestrator.server.web.drawing.layers import Layout, Place, lay_out

MOST_NODES = 400
"""How many nodes are drawn; a note in the drawing says how many are left out."""

LINE, PAD, CHAR = 16, 10, 7.6
"""Pixels: the height of a line of text, the space around it, and the width of a character."""
NARROWEST, LONGEST = 12, 30
"""Characters in a line of a box, at least and at most."""
GAP_X, GAP_Y, LANE = 24, 36, 12
"""Pixels between boxes, between layers, and between edges that lead back."""
ARROW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box: `title` in bold, `lines` below it, `kind` for its colour (class `node-KIND`), `about` when pointed at.

    With `href` it is a link.
    """

    key: str
    title: str
    lines: tuple[str, ...] = ()
    kind: str = ""
    about: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between the nodes of these keys: `kind` for its colour (class `edge-KIND`), `about` when pointed at."""

    source: str
    target: str
    kind: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Canvas:
    """Where things are, in pixels."""

    layout: Layout
    width: float
    height: float

    def left(self, place: Place) -> float:
        return PAD + self.layout.columns[place] * (self.width + GAP_X)

    def middle(self, place: Place) -> float:
        return self.left(place) + self.width / 2

    def top(self, place: Place) -> float:
        return PAD + self.layout.layers[place] * (self.height + GAP_Y)

    def bottom(self, place: Place) -> float:
        return self.top(place) + self.height


def draw_graph(nodes: Sequence[Node], edges: Sequence[Edge], label: str) -> Markup:
    """Return the graph as SVG; `label` says what it shows to those who cannot see it.

    Kinds must be words of letters, digits and hyphens; all other texts may be anything.
    """
    drawn, left_out = nodes[:MOST_NODES], len(nodes) - MOST_NODES
    layout = lay_out([one.key for one in drawn], [(one.source, one.target) for one in edges])
    longest = max((_width(text) for one in drawn for text in (one.title, *one.lines)), default=NARROWEST)
    rows = 1 + max((len(one.lines) for one in drawn), default=0)
    canvas = _Canvas(
        layout=layout,
        width=2 * PAD + CHAR * min(LONGEST, max(NARROWEST, longest)),
        height=2 * PAD + LINE * rows,
    )
    boxes = [_node(one, canvas) for one in drawn]
    right = max((canvas.left(place) for place in layout.columns), default=0.0) + canvas.width
    low = max((canvas.bottom(place) for place in layout.layers), default=0.0)
    known = {one.key for one in drawn}
    arrows = list(_edges([one for one in edges if {one.source, one.target} <= known], canvas, right))
    notes = []
    if left_out > 0:
        low += LINE + PAD
        notes.append(f'<text class="graph-note" x="{PAD}" y="{low:.0f}">… and {left_out} more</text>')
    width, height = right + LANE * (len(layout.back) + 1) + PAD, low + PAD
    role = "group" if any(one.href for one in drawn) else "img"
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="graph" role="{role}" aria-label="{escape(label)}" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}">{"".join((*arrows, *boxes, *notes))}</svg>'
    )


def _node(node: Node, canvas: _Canvas) -> str:
    x, y = canvas.left(node.key), canvas.top(node.key)
    texts = [
        f'<text class="{kind}" x="{canvas.middle(node.key):.0f}" y="{y + PAD + LINE * row + 12:.0f}"'
        f' text-anchor="middle">{escape(_cut(text))}</text>'
        for row, (kind, text) in enumerate([("node-title", node.title), *(("node-line", one) for one in node.lines)])
    ]
    whole = node.about or " · ".join((node.title, *node.lines))
    box = (
        f'<g class="node{_kind("node", node.kind)}"><title>{escape(whole)}</title>'
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{canvas.width:.0f}" height="{canvas.height:.0f}" rx="6"/>'
        f"{''.join(texts)}</g>"
    )
    return f'<a href="{escape(node.href)}">{box}</a>' if node.href else box


def _edges(edges: Sequence[Edge], canvas: _Canvas, right: float) -> Iterator[str]:
    lane = 0
    for edge in edges:
        if (edge.source, edge.target) in canvas.layout.back:
            lane += 1
            path = _path_back(edge, canvas, right + LANE * lane)
        else:
            path = _path_down(edge, canvas)
        about = edge.about or f"{edge.source} → {edge.target}"
        yield f'<g class="edge{_kind("edge", edge.kind)}"><title>{escape(about)}</title>{path}</g>'


def _path_down(edge: Edge, canvas: _Canvas) -> str:
    """Return a curve from the bottom of a box to the top of another, past the waypoints between them."""
    x, y = canvas.middle(edge.source), canvas.bottom(edge.source)
    parts = [f"M{x:.0f},{y:.0f}"]
    points = [
        (canvas.middle(one), canvas.top(one), canvas.bottom(one))
        for one in canvas.layout.waypoints.get((edge.source, edge.target), ())
    ]
    end = canvas.top(edge.target)
    for to, top, bottom in (*points, (canvas.middle(edge.target), end - ARROW, end - ARROW)):
        half = (y + top) / 2
        parts.append(f"C{x:.0f},{half:.0f} {to:.0f},{half:.0f} {to:.0f},{top:.0f}")
        if bottom > top:
            parts.append(f"V{bottom:.0f}")
        x, y = to, bottom
    head = f"M{x:.0f},{end:.0f}l-{ARROW - 1},-{ARROW + 2}h{2 * ARROW - 2}z"
    return f'<path class="line" d="{"".join(parts)}"/><path class="head" d="{head}"/>'


def _path_back(edge: Edge, canvas: _Canvas, lane: float) -> str:
    """Return a line from the right of a box, along a lane beside all boxes, to the right of another."""
    half = canvas.height / 2
    from_x, from_y = canvas.left(edge.source) + canvas.width, canvas.top(edge.source) + half + PAD
    to_x, to_y = canvas.left(edge.target) + canvas.width, canvas.top(edge.target) + half - PAD
    line = f"M{from_x:.0f},{from_y:.0f}H{lane:.0f}V{to_y:.0f}H{to_x + ARROW:.0f}"
    head = f"M{to_x:.0f},{to_y:.0f}l{ARROW + 2},-{ARROW - 1}v{2 * ARROW - 2}z"
    return f'<path class="line" d="{line}"/><path class="head" d="{head}"/>'


def _kind(prefix: str, kind: str) -> str:
    return f" {prefix}-{escape(kind)}" if kind else ""


def _cut(text: str) -> str:
    """Return a text that fits into the widest box."""
    if _width(text) <= LONGEST:
        return text
    room, kept = LONGEST - 1, 0
    for character in text:
        room -= _columns_of(character)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept]}…"


def _width(text: str) -> int:
    """Return how many columns a text takes, counting no further than one that does not fit."""
    return sum(map(_columns_of, text[: LONGEST + 1]))


def _columns_of(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
