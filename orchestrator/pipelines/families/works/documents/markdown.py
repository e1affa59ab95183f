"""The parts of a Markdown file that a work's formats are made of: sections, fields, lists, tables, code."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.formats.markdown import cleaned, open_fence
from orchestrator.pipelines.families.works.documents.language import Heading, Label, heading_of, is_label

LARGEST_FILE = 256 * 1024
"""Characters of a file that is read."""
MOST_LINES = 20_000

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)(.*)")
_FIELD = re.compile(r"(?:>|[-*+](?=\s))?[ \t]*+(?P<name>[^:：|]{1,60})[:：](?P<rest>.*)")
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+(?P<text>.*)")
_BOX = re.compile(r"\[([ xX✓✔]?)\][ \t]*(.*)")
_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, and whether it is code."""

    text: str
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a level, and the lines up to the next heading of any level."""

    title: str
    level: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Document:
    """A file in sections; the first one, of level 0, is what stands before the first heading."""

    sections: tuple[Section, ...]

    @property
    def title(self) -> str:
        """The first heading of level 1; empty if there is none."""
        return next((section.title for section in self.sections if section.level == 1), "")

    @cached_property
    def head(self) -> tuple[Line, ...]:
        """The lines before the first heading of level 2 or deeper: where the fields of the whole file stand."""
        found: list[Line] = []
        for section in self.sections:
            if section.level > 1:
                break
            found += section.lines
        return tuple(found)

    def body(self, heading: Heading) -> tuple[Line, ...]:
        """Return the lines of the first section with that heading, those of deeper sections in it included."""
        return tuple(line for section in self.under(heading) for line in _whole(section))

    def has(self, heading: Heading) -> bool:
        """Return whether the file has a section with that heading."""
        return any(heading_of(section.title) is heading for section in self.sections if section.level)

    def under(self, heading: Heading) -> tuple[Section, ...]:
        """Return the first section with that heading, followed by the deeper sections in it.

        The heading itself is left out of the first one.
        """
        begin = next((at for at, one in enumerate(self.sections) if one.level and heading_of(one.title) is heading), -1)
        if begin < 0:
            return ()
        level = self.sections[begin].level
        inside = [Section("", level, self.sections[begin].lines)]
        for section in self.sections[begin + 1 :]:
            if section.level <= level:
                break
            inside.append(section)
        return tuple(inside)


@dataclass(frozen=True, slots=True)
class Item:
    """A list item: its text and how far it is indented; `done` is None without a checkbox."""

    text: str
    indent: int = 0
    done: bool | None = None


def read_document(text: str, name: str) -> Document:
    """Return a file in sections. Raises ValueError, with words for its author, if the file is too large."""
    if len(text) > LARGEST_FILE:
        raise ValueError(f"{name} has {len(text)} characters; at most {LARGEST_FILE} are read")
    lines = cleaned(text).split("\n")
    if len(lines) > MOST_LINES:
        raise ValueError(f"{name} has {len(lines)} lines; at most {MOST_LINES} are read")
    sections: list[Section] = []
    title, level, body, fence = "", 0, [], ""
    for line in lines:
        before, fence = fence, open_fence(line, fence)
        is_code = bool(before or fence)
        found = None if is_code else _HEADING.fullmatch(line)
        if found is None:
            body.append(Line(line, is_code))
            continue
        sections.append(Section(title, level, tuple(body)))
        title, level, body = found[2].strip().rstrip("#").strip(), len(found[1]), []
    sections.append(Section(title, level, tuple(body)))
    return Document(tuple(sections))


def _whole(section: Section) -> Iterator[Line]:
    if section.title:
        yield Line(f"{'#' * section.level} {section.title}")
    yield from section.lines


def field(lines: Iterable[Line], label: Label) -> str | None:
    """Return the value of the first field of that name, such as `> Name: value` or `- **Name**: value`; else None."""
    found = next(fields(lines, label), None)
    return None if found is None else found[1]


def fields(lines: Iterable[Line], label: Label) -> Iterator[tuple[int, str]]:
    """Yield the number of the line and the value of every field of that name."""
    for number, line in enumerate(lines):
        if line.is_code or not (match := _FIELD.fullmatch(line.text.strip())):
            continue
        if is_label(match["name"], label):
            yield number, bare(match["rest"].strip().removeprefix("**"))


def bare(text: str) -> str:
    """Return a text without surrounding blanks, emphasis and code marks."""
    return text.strip().strip("*`").strip()


def items(lines: Iterable[Line]) -> Iterator[Item]:
    """Yield the items of the lists in these lines; what follows an item without being one belongs to no item."""
    for line in lines:
        found = None if line.is_code else _ITEM.fullmatch(line.text.removeprefix(">").rstrip())
        if found is None:
            continue
        text, indent = found["text"].strip(), len(found["indent"].expandtabs(4))
        if box := _BOX.fullmatch(text):
            yield Item(box[2].strip(), indent, box[1].strip() != "")
        else:
            yield Item(text, indent)


def rows(lines: Iterable[Line]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of every line of a table, its heading included, without the line of dashes below it."""
    for line in lines:
        text = line.text.strip()
        if line.is_code or not text.startswith("|") or _RULE.fullmatch(text):
            continue
        yield cells(text)


def cells(row: str) -> tuple[str, ...]:
    """Return the cells of a line of a table."""
    inner = row.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return tuple(part.replace("\\|", "|").strip() for part in _split(inner))


def _split(row: str) -> Iterator[str]:
    begin = at = 0
    while at < len(row):
        if row[at] == "\\":
            at += 1
        elif row[at] == "|":
            yield row[begin:at]
            begin = at + 1
        at += 1
    yield row[begin:]


def code(lines: Iterable[Line]) -> str:
    """Return the content of the code blocks in these lines, without their fences."""
    found: list[str] = []
    opened = False
    for line in lines:
        if not line.is_code:
            opened = False
        elif not opened:
            opened = True
        elif line.text.lstrip().startswith(("```", "~~~")):
            opened = False
        else:
            found.append(line.text)
    return "\n".join(found).strip("\n")


def prose(lines: Iterable[Line]) -> str:
    """Return the lines as one text, without surrounding blank lines."""
    return "\n".join(line.text for line in lines).strip("\n").strip()


def quoted(lines: Iterable[Line]) -> str:
    """Return the text of the block quote in these lines."""
    marked = [line.text.lstrip() for line in lines if line.text.lstrip().startswith(">")]
    return "\n".join(line[1:].removeprefix(" ") for line in marked).strip("\n")


def quote(text: str) -> str:
    """Return a text as a block quote."""
    return "\n".join(f"> {line}".rstrip() for line in cleaned(text).strip("\n").split("\n"))


def cell(text: str) -> str:
    """Return a text that stands in a cell of a table: on one line, its bars escaped."""
    return one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def one_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(cleaned(text).split())


def bullets(texts: Sequence[str], otherwise: str) -> str:
    """Return a list with these items; with none, a text that says so."""
    return "\n".join(f"- {one_line(text)}" for text in texts) or otherwise
