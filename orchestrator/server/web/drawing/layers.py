"""Where the nodes of a directed graph are drawn: in layers from the top to the bottom, each below what leads to it.

An edge that closes a cycle counts as one that leads back. An edge over several layers gets a waypoint in each of those
between, so that it passes beside their nodes. The order within a layer, and then the place, follows that of the
neighbours, in a fixed number of sweeps.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[str, str]
Waypoint = tuple[Pair, int]
"""Where an edge passes a layer: its ends, and the number of the layer."""
Place = str | Waypoint
"""What takes a place in a layer: a node by its key, or a waypoint."""

WIDEST = 8
"""How many nodes are side by side at most; more continue in the layer below."""
MOST_WAYPOINTS = 4000
"""Beyond these, edges are drawn straight."""
SWEEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where nodes and waypoints are: their layer, counted from the top, and their column, which may be a fraction.

    `back` are the edges that lead to the same layer or up; `waypoints` has those of each edge from the top down.
    """

    layers: Mapping[Place, int]
    columns: Mapping[Place, float]
    back: frozenset[Pair]
    waypoints: Mapping[Pair, tuple[Waypoint, ...]]


def lay_out(keys: Sequence[str], pairs: Iterable[Pair]) -> Layout:
    """Return where to draw these nodes and the edges between them; edges of unknown nodes are left out."""
    known = set(keys)
    edges = [pair for pair in dict.fromkeys(pairs) if known.issuperset(pair)]
    back = _closing_cycles(keys, edges)
    forward = [pair for pair in edges if pair not in back]
    layer_of: dict[Place, int] = {}
    layer_of.update(_narrowed(keys, _ranks(keys, forward)))
    waypoints = _waypoints(forward, layer_of)
    layer_of |= {one: one[1] for found in waypoints.values() for one in found}
    rows: defaultdict[int, list[Place]] = defaultdict(list)
    for place, layer in layer_of.items():
        rows[layer].append(place)
    links = _links(forward, waypoints)
    columns = _columns([rows[layer] for layer in sorted(rows)], links)
    return Layout(layers=layer_of, columns=columns, back=frozenset(back), waypoints=waypoints)


def _closing_cycles(keys: Sequence[str], edges: Sequence[Pair]) -> set[Pair]:
    """Return the edges that lead back to a node on the way to their own, when nodes are visited in their order."""
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        targets[source].append(target)
    found: set[Pair] = set()
    done: set[str] = set()
    for key in keys:
        if key in done:
            continue
        open_, on_way = [(key, iter(targets[key]))], {key}
        while open_:
            node, rest = open_[-1]
            following = next(rest, None)
            if following is None:
                open_.pop()
                on_way.discard(node)
                done.add(node)
            elif following in on_way:
                found.add((node, following))
            elif following not in done:
                on_way.add(following)
                open_.append((following, iter(targets[following])))
    return found


def _ranks(keys: Sequence[str], forward: Sequence[Pair]) -> dict[str, int]:
    """Return the length of the longest way to each node."""
    waiting = dict.fromkeys(keys, 0)
    targets: defaultdict[str, list[str]] = defaultdict(list)
    for source, target in forward:
        waiting[target] += 1
        targets[source].append(target)
    ranks = dict.fromkeys(keys, 0)
    ready = deque(key for key in keys if not waiting[key])
    while ready:
        node = ready.popleft()
        for target in targets[node]:
            ranks[target] = max(ranks[target], ranks[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return ranks


def _narrowed(keys: Sequence[str], ranks: Mapping[str, int]) -> dict[str, int]:
    """Return the layer of each node, when no layer is wider than WIDEST."""
    rows: defaultdict[int, list[str]] = defaultdict(list)
    for key in keys:
        rows[ranks[key]].append(key)
    layers: dict[str, int] = {}
    begin = 0
    for rank in sorted(rows):
        for index, key in enumerate(rows[rank]):
            layers[key] = begin + index // WIDEST
        begin += -(-len(rows[rank]) // WIDEST)
    return layers


def _waypoints(forward: Sequence[Pair], layer_of: Mapping[Place, int]) -> dict[Pair, tuple[Waypoint, ...]]:
    between = {pair: range(layer_of[pair[0]] + 1, layer_of[pair[1]]) for pair in forward}
    if sum(map(len, between.values())) > MOST_WAYPOINTS:
        return {}
    return {pair: tuple((pair, layer) for layer in layers) for pair, layers in between.items() if layers}


def _links(forward: Sequence[Pair], waypoints: Mapping[Pair, tuple[Waypoint, ...]]) -> Mapping[Place, list[Place]]:
    """Return the neighbours of each place, above and below."""
    links: defaultdict[Place, list[Place]] = defaultdict(list)
    for pair in forward:
        way: list[Place] = [pair[0], *waypoints.get(pair, ()), pair[1]]
        for above, below in pairwise(way):
            links[above].append(below)
            links[below].append(above)
    return links


def _columns(rows: Sequence[list[Place]], links: Mapping[Place, list[Place]]) -> dict[Place, float]:
    """Return the column of each place: near its neighbours, and at least one from the next in its layer."""
    columns = {place: float(index) for row in rows for index, place in enumerate(row)}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = {place: _mean([columns[one] for one in links.get(place, ())], columns[place]) for place in row}
            row.sort(key=wanted.__getitem__)
            columns.update(_spread(row, wanted))
    left = min(columns.values(), default=0.0)
    return {place: column - left for place, column in columns.items()}


def _spread(row: Sequence[Place], wanted: Mapping[Place, float]) -> dict[Place, float]:
    """Return columns at least one apart, in the order of the row, on average where they are wanted."""
    found: list[float] = []
    for place in row:
        found.append(max(wanted[place], found[-1] + 1.0) if found else wanted[place])
    shift = sum(wanted[place] - column for place, column in zip(row, found, strict=True)) / max(1, len(row))
    return {place: column + shift for place, column in zip(row, found, strict=True)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
