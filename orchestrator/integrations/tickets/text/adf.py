"""Atlassian's document format, the rich text of Jira Cloud, as Markdown; and plain text in that format.

The format is a tree of nodes with `type`, `content`, `attrs` and, on texts, `marks`
(https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/). A node that is not known gives what is
in it; so a document that is wrong in any way loses its form and never its words. Words are not escaped: whoever types
Markdown into Jira means it. Only what would break out of a table's cell, a link or code is kept from doing so.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import count_of, line_of, list_of, object_of, text_of

DEEPEST = 40
"""Levels of nested nodes; deeper ones lose their formatting."""

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_LAST_SECOND = 253402300799
_WRAPS = {"strong": "**", "em": "*", "strike": "~~"}
_INLINE = frozenset(
    {"text", "hardBreak", "mention", "emoji", "date", "status", "inlineCard", "placeholder", "mediaInline"}
    | {"inlineExtension"}
)


def to_markdown(document: Json) -> str:
    """Return the document as Markdown; a string is returned unchanged, anything else gives no text."""
    if isinstance(document, str):
        return document.strip()
    return "\n\n".join(_blocks(object_of(document), 0)).strip()


def to_adf(text: str) -> JsonObject:
    """Return plain text as a document: blank lines separate paragraphs, and single line breaks are kept.

    In Markdown, lines would run together; lists, tables and code must not.
    """
    paragraphs = (part.strip("\n") for part in _BLANK_LINES.split(text))
    content: list[Json] = [{"type": "paragraph", "content": _lines(part)} for part in paragraphs if part.strip()]
    return {"type": "doc", "version": 1, "content": content}


def _lines(paragraph: str) -> list[Json]:
    first, *others = paragraph.split("\n")
    nodes: list[Json] = [{"type": "text", "text": first}]
    for line in others:
        nodes += [{"type": "hardBreak"}, {"type": "text", "text": line}]
    return nodes


def _content(node: JsonObject) -> list[JsonObject]:
    return [object_of(child) for child in list_of(node.get("content"))]


def _text(node: JsonObject) -> str:
    """Return a node's own text, uncut: the caller limits its length."""
    text = node.get("text")
    return text if isinstance(text, str) else ""


def _attribute(node: JsonObject, name: str) -> str:
    return line_of(object_of(node.get("attrs")).get(name), 1000)


def _blocks(node: JsonObject, depth: int) -> Iterator[str]:
    """Yield the children of a node as blocks of Markdown; text between blocks becomes a paragraph."""
    loose: list[JsonObject] = []
    for child in _content(node):
        if child.get("type") in _INLINE:
            loose.append(child)
            continue
        if loose:
            yield _line(loose)
            loose = []
        if block := _block(child, depth + 1):
            yield block
    if loose:
        yield _line(loose)


def _block(node: JsonObject, depth: int) -> str:
    if depth > DEEPEST:
        return _words(node)
    match node.get("type"):
        case "paragraph" | "caption":
            return _line(_content(node))
        case "heading":
            level = min(max(count_of(object_of(node.get("attrs")).get("level")), 1), 6)
            return f"{'#' * level} {_line(_content(node), on_one=True)}"
        case "bulletList" | "orderedList" | "taskList" | "decisionList":
            return _list(node, depth)
        case "codeBlock":
            return _code(node)
        case "blockquote" | "panel":
            return _quoted(node, depth)
        case "expand" | "nestedExpand":
            return "\n\n".join(filter(None, [f"**{_attribute(node, 'title') or 'Details'}**", *_blocks(node, depth)]))
        case "table":
            return _table(node, depth)
        case "rule":
            return "---"
        case "media":
            return _media(node)
        case "blockCard" | "embedCard":
            return _link(_attribute(node, "url"), "")
        case _:
            return "\n\n".join(_blocks(node, depth)) or _one(node)


def _list(node: JsonObject, depth: int) -> str:
    """Return the items of a list, nested content indented; a list directly inside a list belongs to the item before."""
    number = count_of(object_of(node.get("attrs")).get("order")) or 1
    numbered, lines = node.get("type") == "orderedList", list[str]()
    for item in _content(node):
        is_item = str(item.get("type")).endswith("Item")
        mark = _mark(item, number if numbered else None) if is_item else "  "
        body = "\n\n".join(_blocks(item, depth + 1)) if is_item else _block(item, depth + 1)
        number += is_item
        tight = body if "```" in body else body.replace("\n\n", "\n")
        first, *rest = tight.split("\n")
        indent = " " * (len(mark) if numbered else 2)
        lines += [f"{mark}{first}".rstrip(), *(f"{indent}{line}".rstrip() for line in rest)]
    return "\n".join(lines)


def _mark(item: JsonObject, number: int | None) -> str:
    if number is not None:
        return f"{number}. "
    match item.get("type"), _attribute(item, "state"):
        case "taskItem" | "blockTaskItem", "DONE":
            return "- [x] "
        case "taskItem" | "blockTaskItem", _:
            return "- [ ] "
        case "decisionItem", _:
            return "- Decision: "
        case _:
            return "- "


def _code(node: JsonObject) -> str:
    code = _words(node)
    runs = (len(run) for run in code.replace("`", "\0`\0").replace("\0\0", "").split("\0") if run.startswith("`"))
    fence = "`" * max(3, 1 + max(runs, default=0))
    language = "".join(c for c in _attribute(node, "language")[:30] if c.isalnum() or c in "+#-_.")
    return f"{fence}{language}\n{code}\n{fence}"


def _quoted(node: JsonObject, depth: int) -> str:
    kind = _attribute(node, "panelType")
    head = [f"**{kind.capitalize()}**"] if kind else []
    return "\n".join(f"> {line}".rstrip() for line in "\n\n".join([*head, *_blocks(node, depth)]).split("\n"))


def _table(node: JsonObject, depth: int) -> str:
    rows = [[_cell(cell, depth + 2) for cell in _content(row)] for row in _content(node)]
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    first = _content(_content(node)[0])
    if not all(cell.get("type") == "tableHeader" for cell in first):
        rows.insert(0, [])
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _cell(cell: JsonObject, depth: int) -> str:
    """Return the content of a table cell on one line."""
    text = "\n".join(_blocks(cell, depth))
    return "<br>".join(line.strip() for line in text.split("\n") if line.strip()).replace("|", "\\|")


def _line(nodes: list[JsonObject], *, on_one: bool = False) -> str:
    text = "".join(map(_one, nodes)).strip()
    return " ".join(text.split()) if on_one else text


def _one(node: JsonObject) -> str:
    """Return an inline node."""
    match node.get("type"):
        case "text":
            return _marked(node)
        case "hardBreak":
            return "\n"
        case "mention":
            return "@" + (_attribute(node, "text").lstrip("@") or _attribute(node, "id"))
        case "emoji":
            return _attribute(node, "text") or _attribute(node, "shortName")
        case "date":
            return _day(_attribute(node, "timestamp"))
        case "status" | "placeholder":
            said = _attribute(node, "text")
            return f"[{said}]" if said else ""
        case "inlineCard":
            return _link(_attribute(node, "url"), "")
        case "media" | "mediaInline":
            return _media(node)
        case _:
            return _words(node)


def _marked(node: JsonObject) -> str:
    text = _text(node)
    marks = {text_of(object_of(mark).get("type")): object_of(mark) for mark in list_of(node.get("marks"))}
    core = text.strip()
    if not core:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if "code" in marks:
        ticks = "``" if "`" in core else "`"
        core = f"{ticks} {core} {ticks}" if "`" in core else f"`{core}`"
    else:
        for name, sign in _WRAPS.items():
            core = f"{sign}{core}{sign}" if name in marks else core
    if "link" in marks:
        core = _link(_attribute(marks["link"], "href"), core)
    return before + core + after


def _link(url: str, text: str) -> str:
    """Return a link if the address is safe, else its text; `text` is "" if there is only the address."""
    if not url.lower().startswith(("http://", "https://", "mailto:")):
        return text or url
    url = url.replace("<", "%3C").replace(">", "%3E").replace(" ", "%20")
    if not text or text == url:
        return f"<{url}>"
    inner = text.replace("]", "\\]")
    return f"[{inner}](<{url}>)"


def _media(node: JsonObject) -> str:
    name = _attribute(node, "alt") or _attribute(node, "url") or _attribute(node, "id")
    return f"[attachment: {name}]" if name else "[attachment]"


def _day(timestamp: str) -> str:
    """Return the date of a time in milliseconds, or the text unchanged if it is not one."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 15):
        return timestamp
    seconds = int(timestamp) // 1000
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}" if seconds <= _LAST_SECOND else timestamp


def _words(node: JsonObject) -> str:
    """Return all texts in a node in order, without formatting, at any depth."""
    found, left = list[str](), [node]
    while left:
        here = left.pop()
        if here.get("type") == "hardBreak":
            found.append("\n")
        found.append(_text(here) or _attribute(here, "text"))
        left += reversed(_content(here))
    return "".join(found)
