"""Requirement.md: what a work is to achieve, as a person asked for it and as it can be verified."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.formats.markdown import cleaned, open_fence
from orchestrator.pipelines.families.works.documents.language import (
    Heading,
    Language,
    heading_of,
    is_none,
    language_of,
    nothing_in,
    title_of,
)
from orchestrator.pipelines.families.works.documents.markdown import (
    Line,
    Section,
    bullets,
    items,
    one_line,
    quote,
    quoted,
    read_document,
)
from orchestrator.pipelines.families.works.documents.names import REQUIREMENT, work_id, work_number

_TITLE_WORK = re.compile(r"WORK-\d{1,9}", re.IGNORECASE)
_NUMBERED = re.compile(
    r"[\s|>*+#\[\]x-]{0,20}(?:\d{1,3}[.)]\s)?[\s*]{0,5}(?P<kind>N?FR)-(?P<number>\d{1,6})\b[\s*`:：.)|—–-]{0,20}(?P<text>.*)",
    re.IGNORECASE,
)
MOST_REQUIREMENTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One requirement: its id, such as FR-01, and its text."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a work is to achieve: the words of the person who asked, and what follows from them."""

    work: str
    request: str
    functional: tuple[Demand, ...]
    non_functional: tuple[Demand, ...] = ()
    criteria: tuple[str, ...] = ()
    language: Language = Language.EN


def read_requirement(text: str) -> Requirement:
    """Return what a Requirement.md says. Raises ValueError, with words for its author, if it says too much."""
    document = read_document(text, REQUIREMENT)
    found = _TITLE_WORK.search(document.title)
    number = work_number(found[0]) if found else None
    functional = _demands(document.under(Heading.FUNCTIONAL), "FR")
    non_functional = _demands(document.under(Heading.NON_FUNCTIONAL), "NFR")
    criteria = tuple(item.text for item in items(document.body(Heading.CRITERIA)) if not is_none(item.text))
    if len(functional) + len(non_functional) + len(criteria) > MOST_REQUIREMENTS:
        raise ValueError(f"{REQUIREMENT} names more than {MOST_REQUIREMENTS} requirements and criteria")
    return Requirement(
        work=work_id(number) if number is not None else "",
        request=quoted(document.body(Heading.ORIGINAL_REQUEST)),
        functional=functional,
        non_functional=non_functional,
        criteria=criteria,
        language=language_of("\n".join(section.title for section in document.sections) + text),
    )


def problems_of_requirement(text: str, work: str) -> tuple[str, ...]:
    """Return what a Requirement.md lacks, in words for its author."""
    try:
        found = read_requirement(text)
    except ValueError as error:
        return (str(error),)
    problems = []
    if found.work != work:
        problems.append(f"its first heading must be '# Requirement — {work}'")
    if not found.request:
        problems.append("'## Original Request' must quote the request word for word, each line after '> '")
    if not found.functional:
        problems.append("'## Functional Requirements' must list at least one '- FR-01: …'")
    if not found.criteria:
        problems.append("'## Acceptance Criteria' must list at least one '- [ ] …'")
    repeated = _repeated(demand.id for demand in (*found.functional, *found.non_functional))
    problems += [f"{name} is used twice" for name in repeated]
    return tuple(problems)


def with_request(text: str, request: str) -> str:
    """Return a Requirement.md whose original request is quoted word for word; as it is, if it has no such section."""
    lines = cleaned(text).split("\n")
    begin = end = None
    fence = ""
    for number, line in enumerate(lines):
        before, fence = fence, open_fence(line, fence)
        if before or fence or not line.startswith("#"):
            continue
        if begin is not None:
            end = number
            break
        if heading_of(line) is Heading.ORIGINAL_REQUEST:
            begin = number
    if begin is None or not request.strip():
        return text
    return "\n".join((*lines[: begin + 1], quote(request), "", *lines[len(lines) if end is None else end :]))


def write_requirement(requirement: Requirement) -> str:
    """Return a requirement as a Requirement.md in its language."""
    language = requirement.language

    def part(heading: Heading, text: str) -> str:
        return f"## {title_of(heading, language)}\n{text}"

    nothing = nothing_in(language)
    return (
        "\n\n".join(
            (
                f"# Requirement — {requirement.work}",
                part(Heading.ORIGINAL_REQUEST, quote(requirement.request)),
                part(Heading.FUNCTIONAL, _list(requirement.functional, nothing)),
                part(Heading.NON_FUNCTIONAL, _list(requirement.non_functional, nothing)),
                part(
                    Heading.CRITERIA, "\n".join(f"- [ ] {one_line(text)}" for text in requirement.criteria) or nothing
                ),
            )
        )
        + "\n"
    )


def _list(demands: Sequence[Demand], nothing: str) -> str:
    return bullets([f"{demand.id}: {demand.text}" for demand in demands], nothing)


def _demands(sections: Iterable[Section], kind: str) -> tuple[Demand, ...]:
    """Return the numbered requirements in these sections: in a list, a table, or each under a heading of its own."""
    found: list[Demand] = []
    for section in sections:
        heading = _demand(section.title, kind)
        if heading is not None:
            first = next((line.text.strip() for line in section.lines if line.text.strip()), "")
            found.append(heading if heading.text else Demand(id=heading.id, text=first))
        found += [
            demand for demand in (_demand(line.text, kind) for line in _said(section.lines)) if demand is not None
        ]
    return tuple(demand for demand in found if not is_none(demand.text))


def _said(lines: Iterable[Line]) -> Iterable[Line]:
    return (line for line in lines if not line.is_code)


def _demand(line: str, kind: str) -> Demand | None:
    found = _NUMBERED.fullmatch(line.strip())
    if found is None or found["kind"].upper() != kind:
        return None
    return Demand(id=f"{kind}-{int(found['number']):02}", text=found["text"].strip().strip("|*").strip())


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)
