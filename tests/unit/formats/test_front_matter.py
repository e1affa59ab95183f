"""Front matter: where it ends, and what is refused before any work is done on it."""

import tracemalloc

import pytest

from orchestrator.formats.front_matter import read_front_matter
from orchestrator.formats.table import DefinitionError


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_front_matter_ends_at_the_second_line_of_dashes(newline: str) -> None:
    read = read_front_matter(newline.join(["---  ", "title: x", "--- ", "a", "---", "b", ""]), "it")
    assert read is not None
    assert (read[0].everything(), read[1]) == ({"title": "x"}, "a\n---\nb")


@pytest.mark.parametrize("text", ["", "---", "---\ntitle: x", "----\n---\n", "a\n---\nb\n---\n", "---\n--- x\n"])
def test_text_without_two_lines_of_dashes_has_no_front_matter(text: str) -> None:
    assert read_front_matter(text, "it") is None


def test_front_matter_that_is_too_long_is_refused_before_its_lines_are_split() -> None:
    text = "---\n" + "a: b\n" * 100_000 + "---\ntext"
    tracemalloc.start()
    try:
        with pytest.raises(DefinitionError, match="longer than 8 KiB"):
            read_front_matter(text, "it")
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()
