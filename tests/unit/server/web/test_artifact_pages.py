"""JSON as an artifact: a line for each value where that stays small, as it is elsewhere."""

import tracemalloc

import pytest

from orchestrator.server.schemas.records import ArtifactKind
from orchestrator.server.web.pages.task.artifacts import DEEPEST_ORDERED, LONGEST_ORDERED, ShownText, shown


def shown_json(text: str) -> ShownText:
    return shown("a.json", ArtifactKind.JSON, text, as_source=False)


def test_json_has_a_line_for_each_value() -> None:
    deepest = "[" * DEEPEST_ORDERED + '"]}[{{"' + "]" * DEEPEST_ORDERED
    assert len(shown_json(deepest).lines) == DEEPEST_ORDERED * 2 + 1
    assert len(shown_json(f"[{deepest}]").lines) == 1
    assert len(shown_json('{"[[[\\"": ["' + "[" * 90 + '", 1]}').lines) == 6


def test_long_json_is_shown_as_it_is() -> None:
    longest = f"[{'1,' * (LONGEST_ORDERED // 2 - 2)}10]"
    assert len(shown_json(longest).lines) > LONGEST_ORDERED // 2 - 2
    assert len(shown_json(f"{longest} ").lines) == 1


@pytest.mark.parametrize("numbers", [45_000, 250_000])
def test_deep_json_takes_no_more_memory_than_its_text(numbers: int) -> None:
    text = "[" * 850 + '"😀",' + "1," * numbers + "1" + "]" * 850
    tracemalloc.start()
    try:
        assert len(shown_json(text).lines) == 1
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
