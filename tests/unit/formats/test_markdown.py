"""External Markdown: what a page would show of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.markdown import cleaned, open_fence, visible


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain 한글\ttab", "plain 한글\ttab"),
        ("a\r\nb\rc\u2028d\x0be", "a\nb\nc\nd\ne"),
        ("nul\0 esc\x1b[2J bell\x07", "nul esc[2J bell"),
        ("left\u202eright\u2066in", "leftrightin"),
        ("zero\u200bwidth\ufeff\u2060", "zerowidth"),
        ("tags\U000e0041\U000e0042", "tags"),
        ("half \ud800", "half "),
        ("👩\u200d💻 स्\u200dत", "👩\u200d💻 स्\u200dत"),
    ],
)
def test_invisible_characters_are_removed(text: str, left: str) -> None:
    assert cleaned(text) == left


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a <!-- b --> c", "a  c"),
        ("a <!-- b --> c <!-- d", "a  c "),
        ("a\n<!-- b\nc\n-->\nd", "a\nd"),
        ("a\n\n<!-- b -->\n\nc", "a\n\n\nc"),
        ("`<!-- code -->` <!-- not -->", "`<!-- code -->` "),
        ("``a <!-- b`` c", "``a <!-- b`` c"),
        ("\\` <!-- b --> `", "\\`  `"),
        ("- ```\n  <!-- code -->\n\n<!-- not -->", "- ```\n  <!-- code -->"),
        ("  ```\n  <!-- code -->\n<!-- not -->", "  ```\n  <!-- code -->"),
        ("`open <!-- b -->", "`open "),
        ('a\n[//]: # (b)\n [comment]: <> "c"\n[1]: https://d.example\n', "a\n[1]: https://d.example"),
        ("```\n[//]: # (code)\n```", "```\n[//]: # (code)\n```"),
        ("```\n<!-- code -->\n```\n<!-- not -->", "```\n<!-- code -->\n```"),
        ("- ~~~ sh\n  <!-- code -->\n  ~~~\n", "- ~~~ sh\n  <!-- code -->\n  ~~~"),
        ("<!--\n```\n-->\nseen <!-- x -->", "seen "),
        ("```\nnever closed <!-- x -->", "```\nnever closed <!-- x -->"),
    ],
)
def test_comments_are_visible_only_in_code(text: str, seen: str) -> None:
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("```python", "", "```"),
        ("```", "```", ""),
        ("````", "```", ""),
        ("``", "", ""),
        ("```", "````", "````"),
        ("``` text", "```", "```"),
        ("~~~", "```", "```"),
        ("```a``` is code in a line", "", ""),
        ("> ```", "", ""),
        ("- ```", "", " ```"),
        ("  1. ~~~ sh", "", " ~~~"),
        ("    ```", " ```", ""),
        ("  more", " ```", " ```"),
        ("", " ```", " ```"),
        ("less", " ```", ""),
        ("~~~", " ```", "~~~"),
        ("{code:java}", "", "{"),
        ("{code}x{code}", "", ""),
        ("x {noformat}", "{", ""),
        ("GET /users/{code}", "", ""),
        ("a {b} c", "{", "{"),
        ("```", "{", "{"),
        ("{code}", "```", "```"),
    ],
)
def test_a_fence_is_open_until_a_matching_one(line: str, before: str, after: str) -> None:
    assert open_fence(line, before) == after


@given(st.text(st.sampled_from("`~<!->{}code \n\0\u200ba"), max_size=200))
def test_nothing_hidden_stays_outside_of_code(text: str) -> None:
    seen = visible(text)
    assert not set(seen) & {"\0", "\u200b"}
    if "`" not in text and "~" not in text and "{" not in text:
        assert "<!--" not in seen or "<!--" not in cleaned(text)


@given(st.text())
def test_cleaned_text_is_stable(text: str) -> None:
    assert cleaned(cleaned(text)) == cleaned(text)
