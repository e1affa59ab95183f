"""Drawings of graphs: boxes do not overlap, arrows point down unless they lead back, and texts stay texts."""

import time
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.graph import graph_edges
from orchestrator.server.web.drawing.graph import MOST_NODES, Edge, Node, draw_graph
from orchestrator.server.web.drawing.layers import lay_out

SVG = "{http://www.w3.org/2000/svg}"
PAIRS = st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=40)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))  # noqa: S314 - our own drawing


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = list(parsed(svg).iter(f"{SVG}rect"))
    x, y, width, height = ([float(one.get(name, "")) for one in found] for name in ("x", "y", "width", "height"))
    return list(zip(x, y, width, height, strict=True))


@given(PAIRS)
def test_boxes_never_overlap_and_stay_inside_the_drawing(pairs: list[tuple[int, int]]) -> None:
    svg = draw_graph(
        [Node(key=str(one), title=f"node {one}") for one in range(15)],
        [Edge(source=str(source), target=str(target)) for source, target in pairs],
        "anything",
    )

    width, height = (float(parsed(svg).get(name, "")) for name in ("width", "height"))
    found = boxes(svg)
    assert len(found) == 15
    for index, (x, y, w, h) in enumerate(found):
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
        for other_x, other_y, *_ in found[:index]:
            assert abs(x - other_x) >= w or abs(y - other_y) >= h


@given(PAIRS)
def test_every_edge_leads_down_but_those_that_close_a_cycle(pairs: list[tuple[int, int]]) -> None:
    edges = [(str(source), str(target)) for source, target in pairs]
    layout = lay_out([str(one) for one in range(15)], edges)

    forward = [pair for pair in edges if pair not in layout.back]
    assert all(layout.layers[source] < layout.layers[target] for source, target in forward)
    is_acyclic = all(source < target for source, target in pairs)
    assert not (is_acyclic and layout.back)


def test_each_bundled_pipeline_is_drawn_with_a_box_for_each_stage() -> None:
    folders = Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))
    for pipeline in load_definitions(folders).pipelines.values():
        nodes = [Node(key=name, title=name) for name in pipeline.stages]
        edges = [Edge(source=one.source, target=one.target) for one in graph_edges(pipeline)]

        svg = draw_graph(nodes, edges, pipeline.name)

        assert len(boxes(svg)) == len(pipeline.stages)
        inside = [one for one in edges if one.target in pipeline.stages]
        assert svg.count('class="head"') == len(inside)


def test_texts_of_strangers_stay_texts() -> None:
    hostile = "\"><script>alert(1)</script>'&<!--"
    svg = draw_graph(
        [Node(key="a", title=hostile, lines=(hostile,), href=f"/tasks/{hostile}"), Node(key="b", title="b")],
        [Edge(source="a", target="b", about=hostile)],
        hostile,
    )

    root = parsed(svg)
    assert not list(root.iter(f"{SVG}script"))
    assert root.get("aria-label") == hostile
    assert root.get("role") == "group"
    assert next(one.text for one in root.iter(f"{SVG}title")) == hostile


def test_a_wide_graph_continues_in_the_layer_below() -> None:
    svg = draw_graph([Node(key=str(one), title=str(one)) for one in range(20)], [], "independent tasks")
    assert len({y for _, y, *_ in boxes(svg)}) == 3
    assert parsed(svg).get("role") == "img"


def test_a_huge_graph_is_cut_and_says_so_and_takes_no_second() -> None:
    nodes = [Node(key=str(one), title=f"TASK-{one}") for one in range(1000)]
    edges = [Edge(source=str(one // 2), target=str(one)) for one in range(1, 1000)]
    began = time.perf_counter()

    svg = draw_graph(nodes, edges, "children")

    assert time.perf_counter() - began < 1
    assert len(boxes(svg)) == MOST_NODES
    assert "and 600 more" in svg


def test_a_long_title_is_cut_and_whole_when_pointed_at() -> None:
    svg = draw_graph([Node(key="a", title="한글" * 40)], [], "one")
    texts = [one.text or "" for one in parsed(svg).iter(f"{SVG}text")]
    assert texts[0].endswith("…")
    assert "한글" * 40 in svg
