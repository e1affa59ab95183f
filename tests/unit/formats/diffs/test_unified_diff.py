"""Unified diffs: hunks with line numbers, whatever the lines of files look like, masked and written again."""

import pytest

from orchestrator.formats.diffs import unified_diff
from orchestrator.formats.diffs.unified_diff import DiffLine, Hunk, LineKind, masked, read_sections


def hunks(text: str) -> list[Hunk]:
    return [one for one in read_sections((line, 0) for line in text.split("\n")) if isinstance(one, Hunk)]


def test_lines_have_the_numbers_of_both_files() -> None:
    (hunk,) = hunks("@@ -3,3 +3,3 @@ def f():\n a\n-b\n+c\n d")
    assert hunk.heading == "def f():"
    assert [(line.kind.value, line.old, line.new, line.text) for line in hunk.lines] == [
        ("context", 3, 3, "a"),
        ("removed", 4, None, "b"),
        ("added", None, 4, "c"),
        ("context", 5, 5, "d"),
    ]


def test_a_line_that_looks_like_a_header_is_a_line_while_lines_are_due() -> None:
    first, second = hunks("@@ -1 +1,2 @@\n--- a/x\n+@@ -9 +9 @@\n+++ b/x\n@@ -9,0 +12 @@\n+diff --git a b\nindex 1..2")
    assert [line.text for line in first.lines] == ["-- a/x", "@@ -9 +9 @@", "++ b/x"]
    assert [(line.new, line.text) for line in second.lines] == [(12, "diff --git a b")]


def test_a_last_line_without_an_end_is_told_and_written_back() -> None:
    text = "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"
    (hunk,) = hunks(text.rstrip("\n"))
    assert [line.has_end for line in hunk.lines] == [False, True]
    assert hunk.text() == text


def test_a_long_hunk_is_read_as_several_that_are_a_valid_patch_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unified_diff, "MOST_LINES", 2)
    found = hunks("@@ -0,0 +1,5 @@\n+a\n+b\n+c\n+d\n+e")
    assert [hunk.new_start for hunk in found] == [1, 3, 5]
    assert "".join(hunk.text() for hunk in found) == "@@ -0,0 +1,5 @@\n+a\n+b\n+c\n+d\n+e\n"


def test_a_hunk_that_ends_early_or_has_garbage_amid_it_is_no_error() -> None:
    assert len(hunks("@@ -1,9 +1,9 @@\n a\ngarbage\n@@ -20 +20 @@\n-x\n+y")) == 2
    assert hunks("@@ -1,9 +1,9 @@") == []
    assert hunks("@@ -99999999999 +1 @@\n+a") == []


def two_line_secret(text: str) -> str:
    return text.replace("BEGIN\nSECRET\nEND", "[REDACTED:key]")


def line(kind: LineKind, text: str) -> DiffLine:
    return DiffLine(kind=kind, text=text)


def test_a_secret_over_lines_of_one_side_is_masked_although_the_other_side_stands_between() -> None:
    lines = (
        line(LineKind.CONTEXT, "before"),
        line(LineKind.CONTEXT, "BEGIN"),
        line(LineKind.REMOVED, "old"),
        line(LineKind.ADDED, "SECRET"),
        line(LineKind.CONTEXT, "END"),
        line(LineKind.CONTEXT, "after"),
    )
    hunk = masked(Hunk(heading="", lines=lines, old_start=1, new_start=1, header=""), two_line_secret)
    assert [one.text for one in hunk.lines] == ["before", "[REDACTED:key]", "old", "[REDACTED]", "[REDACTED]", "after"]


def test_a_text_that_is_withheld_whole_leaves_no_line() -> None:
    lines = tuple(line(LineKind.ADDED, text) for text in ("a", "b", "c"))
    hunk = masked(
        Hunk(heading="", lines=lines, old_start=1, new_start=1, header=""), lambda text: "[WITHHELD: x]" if text else ""
    )
    assert [one.text for one in hunk.lines] == ["[WITHHELD: x]", "[REDACTED]", "[REDACTED]"]


@pytest.mark.parametrize("lines", [["s", "s", "s"], ["s", "a", "s"], ["a", "s", "s"], ["s", "s", "a"]])
def test_masks_that_join_lines_hide_every_secret_wherever_it_stands(lines: list[str]) -> None:
    def redact(text: str) -> str:
        return text.replace("s\ns", "X").replace("s", "Y")

    hunk = masked(
        Hunk(heading="", lines=tuple(line(LineKind.ADDED, one) for one in lines), old_start=1, new_start=1, header=""),
        redact,
    )
    assert len(hunk.lines) == 3
    assert not any(one.text == "s" for one in hunk.lines)
