"""The sections of a ticket under the headings of the ticket templates, Korean or English.

A section is a known heading and everything up to the next heading of the same or a higher level, or a known one.
Headings are those of Markdown and Jira's wiki markup, and whole bold lines, outside code; empty sections are missing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, assert_never

from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.markdown import open_fence
from orchestrator.integrations.tickets.text.classifier import type_of
from orchestrator.integrations.tickets.text.ticket import COMMENT_BY


class Section(StrEnum):
    """The sections that templates have."""

    SUMMARY = "summary"
    BACKGROUND = "background"
    GOAL = "goal"
    REQUIREMENTS = "requirements"
    SCOPE = "scope"
    ACCEPTANCE_CRITERIA = "acceptance_criteria"
    REFERENCES = "references"
    STEPS_TO_REPRODUCE = "steps_to_reproduce"
    EXPECTED = "expected"
    ACTUAL = "actual"
    REVIEW_TARGET = "review_target"
    REVIEW_CRITERIA = "review_criteria"
    VERSION = "version"
    CHANGES = "changes"
    CHECKLIST = "checklist"
    SEVERITY = "severity"


class Variant(StrEnum):
    """The pipeline variant for a type of ticket."""

    FULL = "full"
    REVIEW_ONLY = "review_only"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Prose:
    """A section of plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A section that is a list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Boxes:
    """A section that is a list of checkboxes: each a text and whether it is ticked."""

    boxes: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class Pairs:
    """A section that is a list of `key: value`; a key may have several values."""

    pairs: tuple[tuple[str, tuple[str, ...]], ...]

    def of(self, *keys: str) -> tuple[str, ...]:
        """Return the values under any of the keys."""
        return tuple(value for key, values in self.pairs if key in keys for value in values)


Value: TypeAlias = Prose | Items | Boxes | Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The sections of a ticket; `type` is None if neither a line nor the title names it.

    `missing` names the sections that a ticket of this type should have; it stops nothing.
    """

    type: TicketType | None = None
    variant: Variant = Variant.FULL
    fields: Mapping[Section, Value] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


_NAMES: Mapping[Section, str] = {
    Section.SUMMARY: "summary|overview|tl dr|요약|개요|한 줄 요약",
    Section.BACKGROUND: "background|context|motivation|why|배경|배경 설명|필요성",
    Section.GOAL: "goal|goals|objective|objectives|purpose|목표|목적",
    Section.REQUIREMENTS: (
        "requirements|requirement|functional requirements|details|요구사항|요구 사항|기능 요구사항|상세 내용|상세"
    ),
    Section.SCOPE: "scope|affected modules|affected scope|범위|영향 범위|작업 범위|대상 범위",
    Section.ACCEPTANCE_CRITERIA: (
        "acceptance criteria|acceptance|definition of done|done when"
        "|인수 조건|인수 기준|완료 조건|완료 기준|수용 기준|수락 기준"
    ),
    Section.REFERENCES: "references|reference|links|related|참고|참고 자료|참조|관련 링크|관련 자료",
    Section.STEPS_TO_REPRODUCE: (
        "steps to reproduce|reproduction|reproduction steps|how to reproduce|to reproduce|repro steps|steps"
        "|재현 방법|재현 절차|재현 단계|재현 경로|재현"
    ),
    Section.EXPECTED: (
        "expected|expected behavior|expected behaviour|expected result|expected results"
        "|기대 결과|기대 동작|예상 결과|예상 동작"
    ),
    Section.ACTUAL: (
        "actual|actual behavior|actual behaviour|actual result|actual results|current behavior|current behaviour"
        "|실제 결과|실제 동작|현재 동작|발생 현상|현상"
    ),
    Section.REVIEW_TARGET: "review target|review targets|target|리뷰 대상|검토 대상|대상",
    Section.REVIEW_CRITERIA: "review criteria|review focus|review perspective|리뷰 기준|리뷰 관점|검토 기준|검토 관점",
    Section.VERSION: "version|release version|버전|릴리스 버전|릴리즈 버전|배포 버전",
    Section.CHANGES: "changes|included changes|change list|changelog|변경 사항|변경사항|변경 내역|포함 변경|포함 티켓",
    Section.CHECKLIST: "checklist|check list|todo|체크리스트|점검 항목|확인 사항",
    Section.SEVERITY: "severity|impact|심각도|중요도|영향도",
}
_SECTIONS = {name.replace(" ", ""): section for section, words in _NAMES.items() for name in words.split("|")}
_TYPE_NAMES = frozenset({"작업유형", "worktype", "타입", "type", "유형", "issuetype", "tickettype"})
_KEYS = {
    name.replace(" ", ""): key
    for key, words in {
        "modules": "modules|module|affected modules|모듈|대상 모듈|영향 모듈|관련 모듈",
        "expected_files": "expected files|예상 파일|예상 변경 파일|변경 파일",
        "files": "files|file|파일|대상 파일",
    }.items()
    for name in words.split("|")
}
_OF_PAIRS = frozenset({Section.SCOPE, Section.REVIEW_TARGET, Section.CHANGES})
"""Elsewhere a bullet with a colon is a sentence."""

_HEADING = re.compile(
    r" {0,3}(?P<hashes>#{1,6})[ \t]+(?P<text>\S.*)|h(?P<wiki>[1-6])\.[ \t]+(?P<title>\S.*)"
    r"|[ \t]*\*\*(?P<bold>[^*\n]{1,200})\*\*(?P<tail>[ \t]*:?.*)"
)
_WIKI = re.compile(r"^h[1-6]\.[ \t]+\S", re.MULTILINE)
_BULLET = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•#]|\d{1,9}[.)])[ \t]+(?P<text>\S.*)")
_BOX = re.compile(r"\[(?P<tick>[ xX✓])\][ \t]+(?P<text>\S.*)")
_PAIR = re.compile(
    r"(?:\*\*)?(?P<key>[^\s:\uff1a*`][^:\uff1a*`]{0,40})(?:\*\*)?[ \t]*"
    r"(?::(?:\*\*)?(?=[ \t]|$)|\uff1a(?:\*\*)?)[ \t]*(?P<value>\S.*)?"
)
_CHANGE = re.compile(
    r"(?:\[(?=[^\]]*\]))?(?P<key>[A-Z][A-Z0-9_]{0,30}-\d{1,12}|#\d{1,12})\]?(?:[ \t]*[:\u2013-])?[ \t]+(?P<value>\S.*)"
)
_DECORATION = re.compile(r"^[\W\d_]+|[\W_]+$")
_IN_PARENTHESES = re.compile(r"[(\[][^()\[\]]{0,100}[)\]]")
_NARROW = {0xFF1A: ":", 0xFF08: "(", 0xFF09: ")"}
"""Full-width punctuation of Korean keyboards."""
_NOTHING = frozenset({"", "_No response_"})
"""The placeholder of GitHub's issue forms for an empty field."""
_LOWEST = 7
"""A bold line ranks below every heading."""
_LONGEST_HEADING = 400


def parse_template(text: str, title: str = "", told: TicketType | None = None) -> Parsed:
    """Parse the known sections of a ticket's Markdown; any text can be parsed.

    `told` is the type if it is known already; else a line of the text or the title names it.
    """
    sections, kind = _sections(text)
    warnings = () if told or kind else ("the ticket names no type that is known",)
    kind = told or kind or type_of(title=title)
    fields = {section: value for section, lines in sections.items() if (value := _value(section, lines)) is not None}
    return Parsed(
        type=kind,
        variant=variant_of(kind or TicketType.FEATURE),
        fields=fields,
        missing=tuple(_missing(kind or TicketType.FEATURE, fields)),
        warnings=warnings,
    )


def variant_of(kind: TicketType) -> Variant:
    """Return the pipeline variant for tickets of a type."""
    match kind:
        case TicketType.FEATURE | TicketType.BUGFIX:
            return Variant.FULL
        case TicketType.CODE_REVIEW:
            return Variant.REVIEW_ONLY
        case TicketType.RELEASE:
            return Variant.RELEASE
        case _:
            assert_never(kind)


def document(parsed: Parsed, summary: str) -> JsonObject:
    """Return ticket-parsed.json."""
    fields: JsonObject = {section.value: _shape(section, value) for section, value in parsed.fields.items()}
    return {
        "work_type": parsed.type.value if parsed.type else "unknown",
        "summary": summary,
        "pipeline_variant": parsed.variant.value,
        "fields": fields,
        "missing_fields": [*parsed.missing],
        "warnings": [*parsed.warnings],
    }


def _sections(text: str) -> tuple[dict[Section, list[str]], TicketType | None]:
    """Return the lines of every section, and the type that a line of the ticket names."""
    sections: dict[Section, list[str]] = {}
    kind: TicketType | None = None
    here: Section | None = None
    level, asks_type = 0, False
    for line, heading in _headings(text):
        if heading is None:
            if asks_type and line.strip():
                kind, asks_type = kind or _named_type(line), False
            elif here is not None:
                sections[here].append(line)
            continue
        name, rest, depth = heading
        if _plain(name) in _TYPE_NAMES:
            here, level, asks_type = None, depth, not rest
            kind = kind or (_named_type(rest) if rest else None)
        elif section := _section(name):
            here, level, asks_type = section, depth, False
            sections.setdefault(section, []).extend(["", rest] if rest else [""])
        elif here is not None and depth > level:
            sections[here].append(line)
        else:
            here, asks_type = None, False
    return sections, kind


def _headings(text: str) -> Iterator[tuple[str, tuple[str, str, int] | None]]:
    """Yield every line, and if it is a heading its name, what follows the name, and its level.

    In a text with headings of Jira's wiki markup `# one` is an item of a list, unless it stands alone.
    """
    fence, wiki, lines = "", _WIKI.search(text) is not None, text.splitlines()
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        fence = open_fence(line, fence)
        item = wiki and line.startswith("#") and (before.strip() or after.strip())
        yield line, None if fence or item else _heading(line)


def _heading(line: str) -> tuple[str, str, int] | None:
    found = _HEADING.fullmatch(line.translate(_NARROW)) if len(line) <= _LONGEST_HEADING else None
    if found is None:
        return None
    if found["bold"]:
        rest = found["tail"].lstrip(" \t:")
        said_colon = found["bold"].rstrip().endswith(":") or found["tail"].lstrip().startswith(":")
        return (found["bold"], rest, _LOWEST) if said_colon or not rest else None
    level = len(found["hashes"]) if found["hashes"] else int(found["wiki"])
    text = (found["text"] or found["title"]).rstrip("# \t")
    name, _, rest = text.partition(":")
    if rest.strip() and _section(name) is None and _plain(name) not in _TYPE_NAMES:
        return text, "", level
    return name, rest.strip(), level


def _section(name: str) -> Section | None:
    """Return the section that a heading names, whatever decorates it; one in two languages is known by either."""
    if name.startswith(COMMENT_BY):
        return None
    inner = " ".join(_IN_PARENTHESES.findall(name))
    for part in (name, _IN_PARENTHESES.sub(" ", name), inner, *name.split("/"), *name.split("|")):
        if found := _SECTIONS.get(_plain(part)):
            return found
    return None


def _plain(text: str) -> str:
    """Return a name as in the tables: lower case, undecorated, and without spaces, which Korean uses freely."""
    words = _DECORATION.sub("", text[:_LONGEST_HEADING].casefold().strip())
    return "".join(words.replace("_", " ").replace("-", " ").replace(";", " ").replace("'", "").split())


def _named_type(text: str) -> TicketType | None:
    """Return the type that a value names; one in parentheses counts too: `기능 (feature)`."""
    value = text.translate(_NARROW)[:_LONGEST_HEADING].strip("*`_-• \t")
    return type_of([value, _IN_PARENTHESES.sub(" ", value), *_IN_PARENTHESES.findall(value), *value.split("/")])


def _value(section: Section, lines: Sequence[str]) -> Value | None:
    """Return the content of a section, None if it is empty."""
    text = "\n".join(lines).strip("\n").rstrip()
    if text.strip() in _NOTHING:
        return None
    bullets = _bullets(text.split("\n"))
    if bullets is None and section in _OF_PAIRS - {Section.CHANGES}:
        pairs = _pairs(_bullets(_listed(text.split("\n"))) or [], section)
        return Pairs(pairs) if any(key in _KEYS.values() for key, _ in pairs) else Prose(text.strip())
    if bullets is None:
        return Prose(text.strip())
    if section in _OF_PAIRS and (pairs := _pairs(bullets, section)):
        return Pairs(pairs)
    flat = [item for item, inner in bullets for item in (item, *inner)]
    boxes = [_BOX.fullmatch(item) for item in flat]
    if all(boxes):
        return Boxes(tuple((box["text"], box["tick"] != " ") for box in boxes if box))
    return Items(tuple("\n".join([item, *(f"- {one}" for one in inner)]) for item, inner in bullets))


def _listed(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines as a list, so that `### Modules` above some and `Modules: a` say what `- modules: a` does."""
    below = ""
    for line in lines:
        if found := _heading(line):
            below = "  "
            yield f"- {found[0].strip(' :')}: {found[1]}"
        else:
            yield below + line if _BULLET.fullmatch(line) or not line.strip() else f"{below}- {line.strip()}"


def _bullets(lines: Iterable[str]) -> list[tuple[str, list[str]]] | None:
    """The items of a list with their sub-items; None if there is anything else. An indented line continues its item."""
    items: list[list[list[str]]] = []
    for line in filter(str.strip, lines):
        found = _BULLET.fullmatch(line)
        indented = bool(items) and line[:1] in {" ", "\t"}
        if found and indented and len(found["indent"].expandtabs(4)) >= 2:
            items[-1].append([found["text"].rstrip()])
        elif found:
            items.append([[found["text"].rstrip()]])
        elif indented and not open_fence(line, ""):
            items[-1][-1].append(line.strip())
        else:
            return None
    joined = ([" ".join(pieces) for pieces in item] for item in items)
    return [(item[0], item[1:]) for item in joined]


def _pairs(bullets: Sequence[tuple[str, Sequence[str]]], section: Section) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return every item as a key and its values, or nothing if one of them is not a pair."""
    pairs: list[tuple[str, tuple[str, ...]]] = []
    for item, inner in bullets:
        found = (_CHANGE.fullmatch(item) if section is Section.CHANGES else None) or _PAIR.fullmatch(item)
        if found is None or not (found["value"] or inner):
            return ()
        given, said = found["key"].strip(), (found["value"] or "").strip()
        key = _KEYS.get(_plain(given), given)
        split = [part.strip(" `") for part in said.split(",")] if key in _KEYS.values() else [said]
        pairs.append((key, tuple(filter(None, [*split, *(one.strip(" `") for one in inner)]))))
    return tuple(pairs)


def _missing(kind: TicketType, fields: Mapping[Section, Value]) -> Iterator[str]:
    match kind:
        case TicketType.FEATURE:
            yield from _absent(fields, Section.SUMMARY)
            if not fields.keys() & {Section.REQUIREMENTS, Section.BACKGROUND}:
                yield "requirements or background"
            yield from _without(fields, Section.SCOPE, "modules", "modules")
        case TicketType.BUGFIX:
            wanted = (Section.SUMMARY, Section.STEPS_TO_REPRODUCE, Section.EXPECTED, Section.ACTUAL)
            yield from _absent(fields, *wanted)
            yield from _without(fields, Section.SCOPE, "modules", "modules")
        case TicketType.CODE_REVIEW:
            yield from _absent(fields, Section.SUMMARY)
            yield from _without(fields, Section.REVIEW_TARGET, "files_or_modules", "files", "modules", "expected_files")
        case TicketType.RELEASE:
            yield from _absent(fields, Section.VERSION)
            if not isinstance(fields.get(Section.CHANGES), Pairs):
                yield "changes[].ticket and summary"
        case _:
            assert_never(kind)


def _absent(fields: Mapping[Section, Value], *wanted: Section) -> Iterator[str]:
    yield from (section.value for section in wanted if section not in fields)


def _without(fields: Mapping[Section, Value], section: Section, name: str, *keys: str) -> Iterator[str]:
    value = fields.get(section)
    if not isinstance(value, Pairs) or not value.of(*keys):
        yield f"{section.value}.{name}"


def _shape(section: Section, value: Value) -> Json:
    match value:
        case Prose(text):
            return text
        case Items(items):
            return [*items]
        case Boxes(boxes):
            return [{"text": text, "checked": ticked} for text, ticked in boxes]
        case Pairs(pairs) if section is Section.CHANGES:
            return [{"ticket": key, "summary": ", ".join(values)} for key, values in pairs]
        case Pairs(pairs):
            return {key: [*values] if key in _KEYS.values() or len(values) > 1 else values[0] for key, values in pairs}
        case _:
            assert_never(value)
