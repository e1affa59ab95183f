"""XML elements in the text of agents: found among prose, repaired where agents wrote it carelessly, never expanded.

An element is parsed without document types, so no entity can be declared and nothing outside is read.
"""

import html
import re
from collections.abc import Iterator
from html.entities import html5
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

LARGEST_TEXT = 1024 * 1024
"""Characters of a text in which elements are looked for."""
LARGEST_ELEMENT = 256 * 1024
MOST_ELEMENTS = 200

_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""
_OPAQUE = r"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)"
_TOKEN = re.compile(
    rf"{_OPAQUE}|&(?P<entity>#?[A-Za-z0-9]{{1,32}};)?|<(?P<tag>/?[A-Za-z][A-Za-z0-9-]{{0,40}})?", re.DOTALL
)
_XML_ENTITIES = frozenset(("amp;", "lt;", "gt;", "quot;", "apos;"))


def find_elements(text: str, name: str, known: frozenset[str]) -> Iterator[Element]:
    """Yield the elements of that name in a text, one after the other; `known` are the names that may be in them.

    What cannot be read even after a repair is left out. Raises ValueError if the text is too large.
    """
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"it has {len(text)} characters; at most {LARGEST_TEXT} are read")
    for number, source in enumerate(_sources(_UNFIT.sub("", text), name)):
        if number == MOST_ELEMENTS:
            raise ValueError(f"it has more than {MOST_ELEMENTS} elements <{name}>")
        element = _parsed(source) if len(source) <= LARGEST_ELEMENT else None
        if element is None and len(source) <= LARGEST_ELEMENT:
            element = _parsed(_repaired(source, known | {name}))
        if element is not None:
            yield element


def said(element: Element | None, limit: int = 10_000) -> str:
    """Return the text of an element and of those in it, without surrounding blanks; "" for None."""
    return "".join(element.itertext()).strip()[:limit] if element is not None else ""


def child_text(element: Element, name: str, limit: int = 10_000) -> str:
    """Return the text of the first child of that name; "" without one."""
    return said(element.find(name), limit)


def attribute(element: Element, name: str, limit: int = 200) -> str:
    """Return an attribute without surrounding blanks; "" without one."""
    return element.get(name, "").strip()[:limit]


def escaped(text: str) -> str:
    """Return a text as the content of an element or of an attribute in double quotes."""
    return html.escape(_UNFIT.sub("", text), quote=True).replace("\r", "&#13;")


def tag(name: str, content: str, /, **attributes: str) -> str:
    """Return an element whose content is XML already; attributes that are empty are left out."""
    given = "".join(f' {key.replace("_", "-")}="{escaped(value)}"' for key, value in attributes.items() if value)
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def leaf(name: str, text: str, /, **attributes: str) -> str:
    """Return an element whose content is a text."""
    return tag(name, escaped(text), **attributes)


def _sources(text: str, name: str) -> Iterator[str]:
    """Yield the source of each element of that name, in one pass over the text; elements of one name do not nest."""
    marks = re.compile(
        rf"{_OPAQUE}|<{name}(?=[\s/>])[^<>]{{0,2000}}(?P<empty>/)?>|(?P<end></{name}\s{{0,20}}>)", re.DOTALL
    )
    begin = -1
    for mark in marks.finditer(text):
        if mark[0].startswith("<!"):
            continue
        if mark["end"]:
            if begin >= 0:
                yield text[begin : mark.end()]
            begin = -1
        elif mark[0].endswith("/>"):
            if begin < 0:
                yield mark[0]
        elif begin < 0:
            begin = mark.start()


def _parsed(source: str) -> Element | None:
    try:
        found: Element = fromstring(source, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError):
        return None
    return found


def _repaired(source: str, known: frozenset[str]) -> str:
    """Return the source with every `&` and `<` escaped that begins no entity of XML and no known tag.

    The names of HTML's characters become those characters.
    """

    def mended(match: re.Match[str]) -> str:
        whole = match[0]
        if whole.startswith("<!"):
            return whole
        if whole.startswith("&"):
            entity = match["entity"]
            if entity is None:
                return "&amp;"
            if entity in _XML_ENTITIES or (entity.startswith("#") and _parsed(f"<a>{whole}</a>") is not None):
                return whole
            return escaped(html5[entity]) if entity in html5 else f"&amp;{whole[1:]}"
        name = match["tag"]
        return whole if name and name.removeprefix("/") in known else f"&lt;{whole[1:]}"

    return _TOKEN.sub(mended, source)
