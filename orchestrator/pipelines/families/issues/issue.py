"""Issues as they are handed in: JSON lines, as the original tool's issues.jsonl has them, or a text that lists them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.markdown import open_fence
from orchestrator.pipelines.families.issues.document import (
    MOST_ENTRIES,
    NAME,
    TEXT,
    Fields,
    InvalidField,
    shallow,
    sized,
)
from orchestrator.pipelines.families.issues.solution import Solution, solution_of

LONGEST_FEEDBACK = 20
"""How many notes about earlier tries are passed on, the newest."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}", re.ASCII)
_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,4}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(?P<text>\S.*)", re.ASCII)


class IssueStatus(StrEnum):
    """How far an issue is."""

    REGISTERED = "registered"
    PLANNING = "planning"
    PLANNED = "planned"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"


ISSUE_STATUSES: Mapping[str, IssueStatus] = MappingProxyType(
    {
        **{status.value: status for status in IssueStatus},
        "queued": IssueStatus.PLANNED,
        "paused": IssueStatus.REGISTERED,
    }
)
"""What a status means, with the words of the original tool's command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One issue; `solution` is the plan that is bound to it, `feedback` what was said of earlier tries."""

    id: str
    title: str
    description: str = ""
    status: IssueStatus = IssueStatus.REGISTERED
    priority: str = ""
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    feedback: tuple[str, ...] = ()
    solution: Solution | None = None
    url: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.status is IssueStatus.COMPLETED

    @property
    def document(self) -> JsonObject:
        """The issue as one line of issues.jsonl says it; what is empty is left out."""
        solution: Json = dict(self.solution.document) if self.solution else None
        whole: JsonObject = {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "status": self.status.value,
            "priority": self.priority,
            "tags": [*self.tags],
            "depends_on": [*self.depends_on],
            "feedback": [*self.feedback],
            "solution": solution,
            "url": self.url,
        }
        return {name: value for name, value in whole.items() if value}


def read_issues(text: str) -> tuple[Issue, ...]:
    """Return the issues of JSON lines, of a JSON list, or of an object with a list `issues`. Raises InvalidField.

    Every id is used once, and only ids of this text are depended on.
    """
    issues = tuple(issue_of(fields) for fields in _objects(text))
    if not issues:
        raise InvalidField("", "no issue is named")
    known: set[str] = set()
    for issue in issues:
        if issue.id in known:
            raise InvalidField("id", f"{issue.id} is the id of more than one issue")
        known.add(issue.id)
    for issue in issues:
        for name in issue.depends_on:
            if name not in known:
                raise InvalidField(f"{issue.id}.depends_on", f"{name!r:.60} is no issue of this batch")
    return issues


def _objects(text: str) -> list[Fields]:
    begins = text.lstrip()[:1]
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if begins == "[":
            raise InvalidField("", f"it is no JSON: {error!s:.200}") from error
        return _lines(text)
    shallow(whole)
    if isinstance(whole, list):
        whole = {"issues": whole}
    fields = Fields.of(whole)
    return fields.objects("issues") if fields.get("issues") is not None else [fields]


def _lines(text: str) -> list[Fields]:
    found: list[Fields] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        if len(found) == MOST_ENTRIES:
            raise InvalidField("", f"there are more than {MOST_ENTRIES} issues; divide them among batches")
        try:
            found.append(Fields.of(shallow(orjson.loads(line), f"line {number}"), f"line {number}"))
        except orjson.JSONDecodeError as error:
            raise InvalidField(f"line {number}", f"it is no JSON: {error!s:.200}") from error
    return found


def issue_of(fields: Fields) -> Issue:
    """Return one issue. Raises InvalidField."""
    named = fields.text("id")
    if not _ID.fullmatch(named):
        raise fields.refuse(
            "id", f"{named!r:.60} must be letters, digits and dashes, at most 40, such as ISS-20260528-001"
        )
    fields = replace(fields, path=named)
    solution = fields.get("solution")
    priority = fields.get("priority")
    return Issue(
        id=named,
        title=" ".join(fields.text("title", TEXT).split())[:NAME],
        description=_description(fields),
        status=fields.choice("status", ISSUE_STATUSES, IssueStatus.REGISTERED),
        priority=str(priority) if type(priority) is int else fields.text("priority", default=""),
        tags=fields.texts("tags", limit=NAME),
        depends_on=fields.texts("depends_on", limit=NAME),
        feedback=_feedback(fields),
        solution=None if solution is None else _bound(fields.inner("solution"), named),
        url=fields.text("url", TEXT, default=""),
    )


def _bound(fields: Fields, issue: str) -> Solution:
    """Return the solution that an issue brings; as a file of its own it can be read again. Raises InvalidField."""
    try:
        sized(orjson.dumps(fields.content))
    except InvalidField as error:
        raise InvalidField(fields.path, error.reason) from error
    return solution_of(fields, issue)


def _description(fields: Fields) -> str:
    """Return what is to be done; the original tool's command line calls it context."""
    description, context = (fields.text(name, TEXT, default="") for name in ("description", "context"))
    return description if not context or context == description else f"{description}\n\n{context}".strip()


def _feedback(fields: Fields) -> tuple[str, ...]:
    entries = fields.entries("feedback")[-LONGEST_FEEDBACK:]
    found: list[str] = []
    for one in entries:
        if isinstance(one, str):
            found.append(one[:TEXT])
        else:
            note = Fields.of(one, fields.place("feedback"))
            found.append(f"{note.text('type', default='note')}: {note.text('content', TEXT, default='')}")
    return tuple(found)


def to_lines(issues: Iterable[Issue]) -> str:
    """Return issues as JSON lines that `read_issues` reads."""
    return "".join(orjson.dumps(issue.document).decode() + "\n" for issue in issues)


def issues_in_text(text: str) -> tuple[Issue, ...]:
    """Return the issues that a text lists, numbered ISS-001 and so on. Raises InvalidField.

    JSON is read as such. Else each `## ` heading begins an issue, with what stands above the first as their common
    introduction; without such headings each item of a list is one; and without a list the whole text is one.
    """
    if text.lstrip()[:1] in ("{", "["):
        return read_issues(text)
    parts = _sections(text) or _items(text) or [_whole(text)]
    if len(parts) > MOST_ENTRIES:
        raise InvalidField("", f"there are more than {MOST_ENTRIES} issues; divide them among batches")
    issues = []
    for number, (title, description) in enumerate(parts, 1):
        named = f"ISS-{number:03}"
        if len(description) > TEXT:
            raise InvalidField(named, f"its text has more than {TEXT} characters")
        issues.append(Issue(id=named, title=title[:NAME], description=description))
    return tuple(issues)


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the heading and the text of every section of the second level."""
    sections: list[tuple[str, list[str]]] = []
    above: list[str] = []
    fence = ""
    for line in text.split("\n"):
        is_heading = not fence and line.startswith("## ") and line[3:].strip(" #\t\r")
        fence = open_fence(line, fence)
        if is_heading:
            sections.append((" ".join(line[3:].split()).rstrip("# "), []))
        else:
            (sections[-1][1] if sections else above).append(line)
    introduction = "\n".join(above).strip()
    return [(title, "\n\n".join(filter(None, ("\n".join(body).strip(), introduction)))) for title, body in sections]


def _items(text: str) -> list[tuple[str, str]]:
    """Return the first line and the rest of every item of a list, if the text is one list of at least two."""
    items: list[list[str]] = []
    fence = ""
    for line in text.strip().split("\n"):
        found = None if fence else _ITEM.fullmatch(line.rstrip())
        fence = open_fence(line.strip(), fence)
        if found:
            items.append([found["text"]])
        elif items and (not line.strip() or line[:1] in " \t"):
            items[-1].append(line.strip())
        else:
            return []
    if len(items) < 2:
        return []
    return [(" ".join(first.split()), "\n".join(rest).strip()) for first, *rest in items]


def _whole(text: str) -> tuple[str, str]:
    first = next((line.strip("# \t\r") for line in text.split("\n") if line.strip("# \t\r")), "")
    if not first:
        raise InvalidField("", "the text is empty; say what is to be done")
    return " ".join(first.split()), text.strip()


def unfinished(issues: Sequence[Issue]) -> tuple[Issue, ...]:
    """Return the issues that are not completed, without dependencies on those that are."""
    done = {issue.id for issue in issues if issue.is_finished}
    left = (issue for issue in issues if not issue.is_finished)
    return tuple(
        replace(issue, depends_on=tuple(name for name in issue.depends_on if name not in done)) for issue in left
    )
