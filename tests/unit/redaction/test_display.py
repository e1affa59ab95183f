"""External text prepared for display."""

import pytest

from orchestrator.redaction.display import escape_text


@pytest.mark.parametrize(
    ("text", "fit"),
    [
        ("plain 테스트", "plain 테스트"),
        ("a\nb\x1b[2J", r"a\nb\x1b[2J"),
        ("half \udcff", r"half \udcff"),
        ("left\u202eright", r"left\u202eright"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, fit: str) -> None:
    assert escape_text(text) == fit


@pytest.mark.parametrize(("length", "end"), [(10, "x"), (11, "…")])
def test_long_text_is_truncated(length: int, end: str) -> None:
    cut = escape_text("x" * length, limit=10)
    assert (len(cut), cut[-1]) == (10, end)
