"""Atlassian's documents as Markdown: every known node type, and unknown ones without losing text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.integrations.tickets.text.adf import DEEPEST, to_adf, to_markdown

TYPES = [
    *("doc", "paragraph", "heading", "text", "hardBreak", "bulletList", "orderedList", "listItem", "taskList"),
    *("taskItem", "decisionList", "decisionItem", "codeBlock", "blockquote", "panel", "expand", "table", "tableRow"),
    *("tableHeader", "tableCell", "rule", "media", "mediaSingle", "mediaGroup", "mediaInline", "mention", "emoji"),
    *("date", "status", "inlineCard", "blockCard", "extension", "layoutSection", "layoutColumn", "caption", "unknown"),
]
ATTRIBUTES = ["level", "order", "text", "title", "state", "url", "alt", "id", "timestamp", "panelType", "language"]
MARKS = ["strong", "em", "code", "link", "strike"]
WORDS = ["alpha", "beta", "gamma", "delta"]


def node(kind: str, *content: Json, **attrs: Json) -> JsonObject:
    return {"type": kind, "content": [text(one) if isinstance(one, str) else one for one in content], "attrs": attrs}


def text(words: str, *marks: str, href: str = "") -> JsonObject:
    return {"type": "text", "text": words, "marks": [{"type": mark, "attrs": {"href": href}} for mark in marks]}


def paragraph(*content: Json) -> JsonObject:
    return node("paragraph", *content)


def item(*content: Json) -> JsonObject:
    return node("listItem", *content)


def row(kind: str, *cells: Json) -> JsonObject:
    return node("tableRow", *(node(kind, paragraph(cell)) for cell in cells))


NESTED = node(
    "bulletList",
    item(
        paragraph("one"),
        node("orderedList", item(paragraph("first"), paragraph("and more")), item(paragraph("second")), order=9),
    ),
    item(paragraph("two"), node("codeBlock", "a\n\nb", language="python")),
)
TASKS = node(
    "taskList",
    node("taskItem", "done", state="DONE"),
    node("taskItem", "open", state="TODO"),
    node("taskList", node("taskItem", "inner", state="TODO")),
)
TABLE = node(
    "table",
    row("tableHeader", "Name", "a|b"),
    node("tableRow", node("tableCell", node("bulletList", item(paragraph("x")), item(paragraph("y"))))),
)


@pytest.mark.parametrize(
    ("block", "markdown"),
    [
        (node("heading", "Title", {"type": "hardBreak"}, "goes on", level=2), "## Title goes on"),
        (node("heading", "Deep", level=99), "###### Deep"),
        (node("heading", "No level"), "# No level"),
        (paragraph("a", {"type": "hardBreak"}, "b"), "a\nb"),
        (paragraph(text("bold ", "strong"), text("both", "strong", "em")), "**bold** ***both***"),
        (paragraph(text("gone", "strike")), "~~gone~~"),
        (paragraph(text("x = 1", "code", "strong")), "`x = 1`"),
        (paragraph(text("`tick", "code")), "`` `tick ``"),
        (paragraph(text(" ", "strong"), "x"), "x"),
        (paragraph(text("here]", "link", href="https://a.example/x y")), "[here\\]](<https://a.example/x%20y>)"),
        (paragraph(text("https://a.example", "link", href="https://a.example")), "<https://a.example>"),
        (paragraph(text("run", "link", href="javascript:alert(1)")), "run"),
        (paragraph(text("under", "underline", "textColor")), "under"),
        (NESTED, "- one\n  9. first\n     and more\n  10. second\n- two\n\n  ```python\n  a\n\n  b\n  ```"),
        (TASKS, "- [x] done\n- [ ] open\n  - [ ] inner"),
        (node("decisionList", node("decisionItem", "Yes", state="DECIDED")), "- Decision: Yes"),
        (node("codeBlock", "a ``` b\n````", language="py thon;"), "`````python\na ``` b\n````\n`````"),
        (node("blockquote", paragraph("said"), paragraph("and done")), "> said\n>\n> and done"),
        (node("panel", paragraph("mind"), panelType="warning"), "> **Warning**\n>\n> mind"),
        (node("expand", paragraph("inside"), title="More"), "**More**\n\ninside"),
        (node("nestedExpand"), "**Details**"),
        (TABLE, "| Name | a\\|b |\n| --- | --- |\n| - x<br>- y |  |"),
        (node("table", row("tableCell", "x")), "|  |\n| --- |\n| x |"),
        (node("table"), ""),
        (node("rule"), "---"),
        (node("mediaSingle", node("media", id="1", alt="a.png"), node("caption", "Us")), "[attachment: a.png]\n\nUs"),
        (node("media"), "[attachment]"),
        (node("mediaGroup", node("media", id="7")), "[attachment: 7]"),
        (paragraph(node("mediaInline", id="8")), "[attachment: 8]"),
        (paragraph(node("mention", text="@Ada"), " ", node("mention", id="id-1")), "@Ada @id-1"),
        (paragraph(node("emoji", shortName=":tada:"), node("emoji", shortName=":x:", text="✗")), ":tada:✗"),
        (paragraph(node("date", timestamp="1779926400000")), "2026-05-28"),
        (paragraph(node("date", timestamp="soon"), node("date", timestamp="9" * 15)), "soon" + "9" * 15),
        (paragraph(node("status", text="DONE"), node("status")), "[DONE]"),
        (paragraph(node("inlineCard", url="https://a.example/1")), "<https://a.example/1>"),
        (paragraph(node("inlineCard", url="file:///etc/passwd")), "file:///etc/passwd"),
        (node("blockCard", url="https://a.example/2"), "<https://a.example/2>"),
        (node("layoutSection", node("layoutColumn", paragraph("a")), node("layoutColumn", paragraph("b"))), "a\n\nb"),
        (node("unheardOf", text("kept")), "kept"),
        (node("unheardOf", text="kept too"), "kept too"),
        (paragraph(node("inlineExtension", text="macro")), "macro"),
        (node("panel", "loose", node("emoji", text="!"), paragraph("b"), "end"), "> loose!\n>\n> b\n>\n> end"),
    ],
)  # fmt: skip
def test_a_node_is_converted_to_markdown(block: JsonObject, markdown: str) -> None:
    assert to_markdown(node("doc", block)) == markdown


def test_blocks_are_separated_and_texts_are_unchanged() -> None:
    typed = paragraph("## Background")
    assert to_markdown(node("doc", typed, paragraph(), paragraph("> quoted"))) == "## Background\n\n> quoted"


@pytest.mark.parametrize("document", [None, 7, True, [], {}, {"type": "doc", "content": {"a": 1}}])
def test_an_invalid_document_gives_no_text(document: Json) -> None:
    assert not to_markdown(document)


def test_a_string_is_used_as_it_is() -> None:
    assert to_markdown(" h1. Wiki \n") == "h1. Wiki"


@pytest.mark.parametrize("kind", ["blockquote", "bulletList", "listItem", "table", "unheardOf"])
def test_text_that_is_nested_too_deep_is_kept(kind: str) -> None:
    deep = paragraph("the", {"type": "hardBreak"}, "end")
    for _ in range(20 * DEEPEST):
        deep = node(kind, deep)
    assert "the" in to_markdown(deep)
    assert "end" in to_markdown(deep)


@st.composite
def around(draw: st.DrawFn, inner: st.SearchStrategy[Json]) -> Json:
    values: st.SearchStrategy[Json] = st.none() | st.integers() | st.text() | st.floats()
    contents: st.SearchStrategy[Json] = st.lists(inner) | inner
    marks: list[Json] = [text("", mark)["marks"] for mark in draw(st.lists(st.sampled_from(MARKS)))]
    return {
        "type": draw(st.sampled_from(TYPES)),
        "content": draw(contents),
        "attrs": draw(st.dictionaries(st.sampled_from(ATTRIBUTES), values)),
        "text": draw(values),
        "marks": draw(st.sampled_from([marks, None, *marks])),
    }


def nodes() -> st.SearchStrategy[Json]:
    leaf: st.SearchStrategy[Json] = st.none() | st.text() | st.builds(text, st.text(), st.sampled_from(MARKS))
    return st.recursive(leaf, around, max_leaves=20)


@given(nodes())
def test_no_document_raises(document: Json) -> None:
    assert isinstance(to_markdown(document), str)


@given(st.lists(st.sampled_from(WORDS), min_size=1), st.data())
def test_text_keeps_its_order_however_it_is_nested(words: list[str], data: st.DataObject) -> None:
    kinds = st.sampled_from(["bulletList", "panel", "layoutSection", "taskList", "unheardOf", "blockquote"])
    blocks: list[Json] = []
    for word in words:
        block = paragraph(word)
        for kind in data.draw(st.lists(kinds, max_size=4)):
            block = node(kind, node("listItem", block) if kind.endswith("List") else block)
        blocks.append(block)
    found = to_markdown(json.loads(json.dumps(node("doc", *blocks))))
    assert [
        word
        for word in found.replace(">", " ").replace("-", " ").split()
        if word in {"alpha", "beta", "gamma", "delta"}
    ] == words


def test_lines_stay_lines_and_blank_lines_separate_paragraphs() -> None:
    report = "# Findings\n\n- [high] a.py:3\n  it leaks\n- [low] b.py:9\n\n\n    code\n"
    document = to_adf(report)
    assert document["content"] == [
        {"type": "paragraph", "content": [{"type": "text", "text": "# Findings"}]},
        {
            "type": "paragraph",
            "content": [
                {"type": "text", "text": "- [high] a.py:3"},
                {"type": "hardBreak"},
                {"type": "text", "text": "  it leaks"},
                {"type": "hardBreak"},
                {"type": "text", "text": "- [low] b.py:9"},
            ],
        },
        {"type": "paragraph", "content": [{"type": "text", "text": "    code"}]},
    ]


@given(st.text(alphabet="ab#-`*> \t\n"))
def test_a_text_survives_the_round_trip_through_a_document(words: str) -> None:
    document = to_adf(words)
    assert to_markdown(document).split() == words.split()
    assert '"text": ""' not in json.dumps(document), "Jira rejects a text node without characters"
