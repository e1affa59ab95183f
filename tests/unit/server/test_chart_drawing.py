"""Charts: the bars of a day stand on each other, the axis reaches the highest day, and names stay texts."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.server.web.drawing.charts import BOTTOM, HEIGHT, TOP, Series, draw_bars

SVG = "{http://www.w3.org/2000/svg}"
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")
AMOUNTS = st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), max_size=9)


def parsed(svg: str) -> ET.Element:
    text = str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return ET.fromstring(text)  # noqa: S314 - our own drawing


@given(AMOUNTS)
def test_bars_stay_on_the_chart_whatever_the_amounts(amounts: list[list[float]]) -> None:
    series = [Series(name=f"role {index}", values=values) for index, values in enumerate(amounts)]
    root = parsed(draw_bars(DAYS, series, lambda value: f"${value:.2f}", "cost"))
    tops = [float(one.get("y", "")) for one in root.iter(f"{SVG}rect")]
    assert len(tops) == sum(value > 0 for values in amounts for value in values)
    assert all(TOP - 0.1 <= y <= HEIGHT - BOTTOM + 0.1 for y in tops)
    assert len(list(root.iter(f"{SVG}path"))) <= 6, "a few lines are enough"


def test_the_bars_of_a_day_stand_on_each_other() -> None:
    series = [Series(name="planner", values=[0, 0, 3]), Series(name="implementer", values=[0, 0, 1])]
    low, high = parsed(draw_bars(DAYS, series, str, "cost")).iter(f"{SVG}rect")
    bottom = float(high.get("y", "")) + float(high.get("height", ""))
    assert bottom == pytest.approx(float(low.get("y", "")), abs=0.2)
    assert (low.get("class"), high.get("class")) == ("series-1", "series-2")
    assert [next(iter(one)).text for one in (low, high)] == ["2026-11-22, planner: 3", "2026-11-22, implementer: 1"]


def test_names_stay_texts_and_a_chart_of_nothing_is_empty() -> None:
    svg = draw_bars(DAYS, [Series(name="</title><script>", values=[1, 0, 0])], str, '"><script>')
    assert "<script>" not in svg
    assert parsed(svg).get("aria-label") == '"><script>'
    assert list(parsed(draw_bars((), (), str, "nothing")).iter(f"{SVG}rect")) == []
