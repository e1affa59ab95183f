"""What a page may consist of: its elements and attributes, found by a parser, against rules for every page."""

from html.parser import HTMLParser
from urllib.parse import urlsplit

FROM_TEXTS = frozenset(
    {"a", "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "mark", "ol", "p", "pre"}
    | {"s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)
"""Elements that a text of an agent may become."""
ELEMENTS = frozenset(
    FROM_TEXTS
    | {"article", "button", "circle", "dd", "details", "div", "dl", "dt", "fieldset", "footer"}
    | {"form", "g", "h1", "h2", "header", "input", "label", "legend", "line"}
    | {"main", "meter", "nav", "option", "path", "progress", "rect", "section", "select", "small"}
    | {"summary", "svg", "text", "textarea", "time"}
)
"""Elements of the templates inside a page's frame."""
FRAME = frozenset({"body", "dialog", "head", "html", "kbd", "link", "meta", "script", "title"})
"""Further elements of the frame."""


class Found(HTMLParser):
    """The elements of a page with their attributes, in their order, and its text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.elements.append(("!--", {"comment": data}))

    def unknown_decl(self, data: str) -> None:
        self.elements.append(("![", {"declaration": data}))

    def handle_pi(self, data: str) -> None:
        self.elements.append(("?", {"instruction": data}))


def parsed(html: str) -> Found:
    """Return what a parser finds in a page."""
    found = Found()
    found.feed(html)
    found.close()
    return found


def faults_of(html: str) -> list[str]:
    """Return what a part of a page has that none may have: foreign elements, handlers, addresses that run or leave."""
    return [fault for tag, attributes in parsed(html).elements for fault in _faults_of_element(tag, attributes)]


def faults_of_page(html: str) -> list[str]:
    """Return the faults of a whole page; its frame has a few elements more."""
    before, _, rest = html.partition("<main")
    inner, _, after = rest.rpartition("</main>")
    frame = [
        fault
        for tag, attributes in (*parsed(before).elements, *parsed(after).elements)
        for fault in _faults_of_element(tag, attributes)
        if tag not in FRAME or not fault.startswith("element ")
    ]
    return frame + faults_of(f"<main{inner}")


def skeleton(html: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the elements of a page with the names of their attributes: what texts in it must not change."""
    return [(tag, tuple(sorted(attributes))) for tag, attributes in parsed(html).elements]


def _faults_of_element(tag: str, attributes: dict[str, str]) -> list[str]:
    faults = [] if tag in ELEMENTS else [f"element {tag} {attributes}"]
    for name, value in attributes.items():
        if name.startswith(("on", "hx-on", "data-hx-on", "x-", "v-", "ng-", "@")) or name in {
            "style",
            "srcdoc",
            "srcset",
        }:
            faults.append(f"attribute {name} of {tag}")
        if name in {"href", "src", "action", "formaction", "hx-get", "hx-post", "poster", "data", "ping"}:
            faults += _faults_of_address(tag, name, value, attributes)
    if tag == "script" and not attributes.get("src", "").startswith("/static/"):
        faults.append("a script without a file of our own")
    return faults


def _faults_of_address(tag: str, name: str, value: str, attributes: dict[str, str]) -> list[str]:
    try:
        parts = urlsplit(value.strip())
    except ValueError:
        return [f"unreadable address {value!r} in {name} of {tag}"]
    if not parts.scheme and not parts.netloc:
        return [] if value.startswith(("/", "#", "?")) and "\\" not in value else [f"odd address {value!r} in {tag}"]
    leaves = tag == "a" and name == "href" and parts.scheme in {"http", "https", "mailto"}
    has_rel = {"noopener", "noreferrer", "nofollow"} <= set(attributes.get("rel", "").split())
    return [] if leaves and has_rel else [f"address {value!r} in {name} of {tag}"]
