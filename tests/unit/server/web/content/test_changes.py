"""Changed lines as HTML: pairs, words, colours, and time that is bounded whatever the text is."""

from math import inf
from time import monotonic

import pytest

from orchestrator.formats.diffs.unified_diff import DiffLine, Hunk, LineKind
from orchestrator.server.web.content import changes
from orchestrator.server.web.content.changes import code_lines, shown_edit, shown_hunks
from orchestrator.server.web.content.highlight import LANGUAGES, coloured, language_of


def test_old_lines_stand_beside_the_new_ones_that_replace_them() -> None:
    hunk = shown_edit("x", "same\na1\na2\nend", "same\nb1\nend\nlast", inf)
    pairs = [(old and str(old.html), new and str(new.html)) for old, new in hunk.pairs]
    assert [(old is None, new is None) for old, new in pairs] == [
        (False, False),
        (False, False),
        (False, True),
        (False, False),
        (True, False),
    ]
    assert (pairs[0][0], pairs[3][1], pairs[4][1]) == ("same", "end", "last")


def test_changed_words_are_marked_and_lines_that_have_little_in_common_are_not() -> None:
    alike, other = shown_edit("x", "a = one", "a = two", inf), shown_edit("x", "alpha beta", "(gamma)", inf)
    assert [str(row.html) for row in alike.rows] == ["a = <mark>one</mark>", "a = <mark>two</mark>"]
    assert "<mark>" not in "".join(str(row.html) for row in other.rows)


def test_a_mark_may_begin_and_end_within_a_coloured_part() -> None:
    rows = shown_edit("x.py", "f('a b')", "f('a c')", inf).rows
    assert str(rows[1].html).count('<span class="t-text">') == 3
    assert '<span class="t-text"><mark>c</mark></span>' in str(rows[1].html)


def test_colours_know_the_lines_before_on_the_same_side() -> None:
    lines = (
        DiffLine(kind=LineKind.CONTEXT, text='"""begin', old=1, new=1),
        DiffLine(kind=LineKind.REMOVED, text='end"""', old=2),
        DiffLine(kind=LineKind.ADDED, text="if inside", new=2),
    )
    (hunk,) = shown_hunks("x.py", [Hunk(heading="", lines=lines, old_start=1, new_start=1, header="")])
    assert "t-keyword" not in str(hunk.rows[2].html)


def test_invisible_and_misleading_characters_are_shown_by_their_numbers() -> None:
    (line,) = code_lines("x", "if a\u202e: # \u200bx\r")
    assert [mark in line for mark in ("⟨U+202E⟩", "⟨U+200B⟩", "⟨U+000D⟩")] == [True, True, True]
    assert not any(character in line for character in "\u202e\u200b\r")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a/b/c.py", "python"),
        ("Dockerfile", "docker"),
        ("Makefile", "make"),
        ("x.unknown", ""),
        ("", ""),
        ("ts", "typescript"),
    ],
)
def test_a_language_is_known_by_the_name_of_a_file(name: str, language: str) -> None:
    assert language_of(name) == language


def test_every_language_of_the_list_has_a_lexer_that_gives_back_the_text() -> None:
    text = "a = 1\n\n  'b' # c\n<d e=\"f\">\n{ [ ( /* \\"
    for language in sorted(set(LANGUAGES.values())):
        found = coloured(language, text)
        assert found is not None
        assert "\n".join("".join(part for _, part in line) for line in found) == text


HARD = ("'", '"', "(", "/*", "<!--", "\\", "{{", "`", "<a ", "${", '"""', "<<A\n", "a", "/", "key: ", "<?php ")


@pytest.mark.parametrize("language", sorted(set(LANGUAGES.values())))
def test_no_text_keeps_a_lexer_longer_than_its_time(language: str) -> None:
    for piece in HARD:
        begun = monotonic()
        coloured(language, "\n".join([piece * (900 // len(piece))] * 5), monotonic() + 0.1)
        assert monotonic() - begun < 3.0, piece


def test_beyond_the_bounds_code_has_no_colours_and_edits_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert coloured("python", "x" * 2_000) is None
    assert coloured("python", "if x:\n" * 20_000) is None
    monkeypatch.setattr(changes, "MOST_EDITED", 3)
    kinds = [row.kind for row in shown_edit("x", "a\n1\n2\nb", "a\n2\n3\nb", inf).rows]
    assert kinds == ["context", "removed", "removed", "added", "added", "context"]
    assert [row.kind for row in shown_edit("x", "", "a\nb", inf).rows] == ["added", "added"]
