"""Foreign text made fit to be shown."""

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
def test_what_cannot_be_printed_is_escaped(text: str, fit: str) -> None:
    assert escape_text(text) == fit


@pytest.mark.parametrize(("length", "end"), [(10, "x"), (11, "…")])
def test_what_is_too_long_is_cut(length: int, end: str) -> None:
    cut = escape_text("x" * length, limit=10)
    assert (len(cut), cut[-1]) == (10, end)
