"""Markdown of agents and tickets as HTML.

Three things keep it harmless, each of which would do alone: the parser knows no HTML, so that tags are shown as text;
what it returns passes nh3 with the list of elements below; and the page's Content-Security-Policy runs nothing. A link
keeps its address only if that is http, https or mailto, and shows the host that it leads to. Pictures become links,
because a page asks no other host.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from urllib.parse import urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.token import Token
from markupsafe import Markup, escape

from orchestrator.server.web.content.changes import code_lines
from orchestrator.server.web.content.highlight import CLASSES
from orchestrator.server.web.content.visible import plain

LONGEST, LONGEST_LINE = 20_000, 5_000
"""Characters of a text, and of its longest line; beyond them it is shown as it is."""
MOST_CELLS = 5_000
"""Cells of all tables of a text; the first table beyond them and those after it are shown as text."""
TAGS = frozenset(
    {"a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span"}
    | {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
ATTRIBUTES = {"a": {"href", "title"}, "span": {"class"}, "ol": {"start"}}
SCHEMES = frozenset({"http", "https", "mailto"})
_CELLS = "cells left"
_SPAN_CLASSES = CLASSES | {"host"}


def markdown(text: str) -> Markup:
    """Return a text as HTML; one beyond the bounds as it is, between <pre>."""
    shown = plain(text)
    if len(shown) > LONGEST or max(map(len, shown.split("\n"))) > LONGEST_LINE:
        return Markup("<pre>{}</pre>").format(shown)
    return _allowed(_rendered(shown))


def _allowed(html: str) -> Markup:
    clean = nh3.clean(
        html,
        tags=set(TAGS),
        attributes={tag: set(names) for tag, names in ATTRIBUTES.items()},
        attribute_filter=_attribute,
        url_schemes=set(SCHEMES),
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(clean)  # noqa: S704 - nh3 has left nothing but the allowed elements in it


def _attribute(tag: str, name: str, value: str) -> str | None:
    if tag == "span":
        return value if name == "class" and value in _SPAN_CLASSES else None
    if name == "start":
        return value if value.isdecimal() and len(value) < 10 else None
    return value


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 20}).enable(["table", "strikethrough"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return parser


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take in a table, unless there are too many cells: a row of one character has as many as the row of headings."""
    is_table = table(state, start, end, True)
    if silent or not is_table:
        return is_table
    if (left := state.env.get(_CELLS, MOST_CELLS)) < 0:
        return False
    columns = state.getLines(start + 1, start + 2, 0, False).strip("\n |").count("|") + 1
    state.env[_CELLS] = left - columns * _rows(state, start, min(end, start + left // columns + 2))
    return state.env[_CELLS] >= 0 and table(state, start, end, False)


def _rows(state: StateBlock, start: int, end: int) -> int:
    """Return how many lines a table can have at most."""
    return next((line for line in range(start, end) if state.isEmpty(line)), end) - start


def _rendered(text: str) -> str:
    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(int(token.tag[1:]) + 2, 6)}"  # the page has headings of its own above
        elif token.type == "fence":
            token.type, token.content = "html_block", _code(token)
        elif token.children:
            token.children = list(_with_hosts(token.children))
    return str(parser.renderer.render(tokens, parser.options, {}))


def _with_hosts(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens of a paragraph, with links that say where they lead, and pictures as links."""
    addresses: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            addresses.append(str(token.attrGet("href") or ""))
            yield _html(_opened(addresses[-1]))
        elif token.type == "link_close":
            yield _html(_closed(addresses.pop()))
        elif token.type == "image":
            address = str(token.attrGet("src") or "")
            words = str(escape(token.content or address))
            yield _html(words if addresses else f"{_opened(address)}{words}{_closed(address)}")
        else:
            yield token


def _html(content: str) -> Token:
    return Token("html_inline", "", 0, content=content)


def _opened(address: str) -> str:
    return str(Markup('<a href="{}">').format(address)) if _host(address) else "<span>"


def _closed(address: str) -> str:
    host = _host(address)
    return str(Markup('</a> <span class="host">({})</span>').format(host)) if host else "</span>"


def _host(address: str) -> str:
    """Return where a link leads: a host, or an address to write to; "" for one that is not allowed."""
    try:
        parts = urlsplit(address)
        if parts.scheme == "mailto":
            return parts.path[:200]
        return (parts.hostname or "")[:200] if parts.scheme in {"http", "https"} else ""
    except ValueError:
        return ""


def _code(fence: Token) -> str:
    words = fence.info.split()
    lines = code_lines(words[0][:40] if words else "", fence.content.rstrip("\n"))
    inner = "\n".join(map(str, lines))
    return f"<pre><code>{inner}</code></pre>\n"
