"""External text prepared for display, and secrets found in disguise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.redaction.display import clean_unicode, escape_text, remove_disguise
from orchestrator.redaction.rules import Redactor, parse_rules

RULE = "[[rules]]\nid = 'key'\naction = 'redact'\nneeds = ['ghp_']\npattern = 'ghp_[A-Za-z0-9]{8,}'"
REDACTOR = Redactor(parse_rules(RULE, "r.toml"))


def wide(text: str) -> str:
    """Return the text in full-width letters."""
    return "".join(chr(ord(letter) + 0xFEE0) for letter in text)


@pytest.mark.parametrize(
    "token",
    [
        "ghp_a1B2c3D4",
        wide("ghp_a1B2c3D4"),
        "ghp_\u200ba1\u200bB2c3\u2060D4",
        "g\u00adhp_a1B2\ufeffc3D4",
        "gh\x1b[1mp_\x1b[0;31ma1B2c3D4",
        "g\u0332h\u0332p\u0332_\u0332a1B2c3D4",
        "\U0001d558\U0001d559\U0001d561_a1B2c3D4",
        "ⓖⓗⓟ_a1B2c3D4",
        "ghp_a1\x00B2c3\x08D4",
        "ghp_a1\U000e0061B2c3D4",
    ],
)
def test_a_disguised_token_is_found_and_masked_at_its_position(token: str) -> None:
    assert REDACTOR.masked(f"a\u200b é {token}.") == "a\u200b é [REDACTED:key]."


def test_letters_of_other_alphabets_are_unchanged() -> None:
    text = "ghp_а1В2с3D4"  # noqa: RUF001 - Cyrillic
    assert REDACTOR.masked(text) == text


@pytest.mark.parametrize(
    "text", ["", "plain", "tab\tand\nline\r\n", "한국어 설명", "naïve “quotes” \u2013 and … → ✓", "\ud800"]
)
def test_a_text_without_disguise_is_not_scanned_twice(text: str) -> None:
    assert clean_unicode(text) is None
    assert remove_disguise(text) == text.replace("\r", "")


PIECES = st.lists(
    st.sampled_from(["a", wide("b"), "\u200b", "\x1b[0m", "\x1b", "é", "\n", "\U000e0061", "\u0301", "\xa0"])
)


@given(PIECES)
def test_every_normalised_letter_knows_its_original_position(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = clean_unicode(text)
    if plain is None:
        return
    places = [plain.origin(index, index + 1) for index in range(len(plain.text))]
    assert all(end == start + 1 for start, end in places)
    assert places == sorted(set(places))
    shapes = {wide("b"): "b", "\xa0": " "}
    assert [shapes.get(text[start], text[start]) for start, _ in places] == list(plain.text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a\x1b[31mred\x1b[0m b", "ared b"),
        ("a\u202eb\u2066c\u200bd\ufeff", "abcd"),
        ("a\r\nb\rc\x00\x07", "a\nb\nc"),
        ("👩\u200d💻 ⚠\ufe0f", "👩\u200d💻 ⚠\ufe0f"),
    ],
)
def test_deceptive_characters_are_removed(text: str, read: str) -> None:
    assert remove_disguise(text) == read


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
