"""The texts of a pull request and its squashed commit: sections, labels, bounds.

Test results are those of the daemon's own runs. Everything else comes from agents; it is cut, and put on one line in
lists and tables.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from orchestrator.core.task.checks import nothing_ran
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json
from orchestrator.formats.fields import line_of, list_of, object_of

MOST_ITEMS = 50
FEW_COMMITS = 10
_LONGEST_LINE = 300
_LONGEST_SUMMARY = 4_000
_LONGEST_TITLE = 200
_RISKY = frozenset({"concurrent", "distributed"})
_BUCKETS = ("Interface changes", "Implementation", "Tests", "Docs", "Misc")
_KINDS = (
    ("Tests", re.compile(r"\b(tests?|testing|coverage|fixtures?)\b", re.IGNORECASE)),
    ("Docs", re.compile(r"\b(docs?|documentation|document|readme|changelog|docstrings?)\b", re.IGNORECASE)),
    ("Interface changes", re.compile(r"\b(interfaces?|api|types?|schema|protocol|signatures?)\b", re.IGNORECASE)),
    ("Misc", re.compile(r"\b(format|formatting|lint|bump|chore|ci|typos?|generated?|clean\s?up)\b", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """The content of related-code.json: impacts of the change, modules, and whether it needs special care."""

    impacts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    careful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a pull request is composed of, besides the task.

    `analysis` is the text of analysis.md; `look_first` says what the branch changes of that which judges it.
    """

    analysis: str = ""
    related: Related = field(default_factory=Related)
    acceptance: tuple[str, ...] = ()
    ticket_url: str | None = None
    look_first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestWords:
    """The title and body of a pull request or a commit; both are sanitized before they leave."""

    title: str
    body: str


def pull_request(task: Task, sources: Sources) -> PullRequestWords:
    """Return the text of a task's pull request, before sanitizing."""
    jira = task.ticket.source == "jira"
    key = f"[{task.ticket.key}]({sources.ticket_url})" if sources.ticket_url else task.ticket.key
    risks = [f"{entry.state} was accepted as it is: {entry.summary}" for entry in task.failures.accepted]
    sections = (
        *((("Look at this first", _list(sources.look_first)),) if sources.look_first else ()),
        ("Jira" if jira else "Requirement", f"{key}: {_line(task.title)}"),
        ("Summary", _first_paragraph(sources.analysis)),
        ("Changes", _changes(task)),
        ("Test Results", _results(task)),
        ("Impact", _list(sources.related.impacts)),
        ("Acceptance Criteria", _list(sources.acceptance)),
        *((("Residual Risks", _list(risks)),) if risks else ()),
    )
    body = "\n\n".join(f"## {name}\n\n{text or 'Not stated.'}" for name, text in sections)
    return PullRequestWords(title=_title(task), body=body + "\n")


def squash_commit(task: Task, subjects: Sequence[str], number: int, url: str, sources: Sources) -> PullRequestWords:
    """Return the message for a squashed merge of commits with these subjects, oldest first."""
    plain = [_line(subject.removeprefix(f"{task.ticket.key}:")) for subject in subjects]
    if len(plain) <= FEW_COMMITS:
        text = _list(plain)
    else:
        kinds = [(name, [subject for subject in plain if _kind(subject) == name]) for name in _BUCKETS]
        text = "\n\n".join(f"{name}:\n{_list(found)}" for name, found in kinds if found)
    ticket = sources.ticket_url or task.ticket.key
    footer = f"{'Jira' if task.ticket.source == 'jira' else 'Ticket'}: {ticket}\nPR: {url}"
    return PullRequestWords(title=f"{_title(task)} (#{number})", body="\n\n".join(filter(None, (text, footer))))


def labels(task: Task, related: Related) -> tuple[str, ...]:
    """Return the labels of a pull request, each once."""
    careful = ("needs-careful-review",) if related.careful or task.failures.accepted else ()
    return tuple(dict.fromkeys(("auto-generated", task.ticket.type.value, *careful, *related.modules)))


def criteria_of(told: Json) -> tuple[str, ...]:
    """Return the acceptance criteria of a parsed ticket, given as a list or as lines of a text."""
    rows = told.split("\n") if isinstance(told, str) else list_of(told)
    return tuple(filter(None, (line_of(object_of(row).get("text") or row, 500) for row in rows)))


def related_code(text: str) -> Related:
    """Parse a related-code.json; what is not in the expected form is left out."""
    try:
        whole: Json = json.loads(text)
    except (ValueError, RecursionError):
        return Related()
    code = object_of(whole)
    rows = [object_of(row) for row in list_of(code.get("impacts"))]
    scope = code.get("scope")
    modules = list_of(scope) or list_of(object_of(scope).get("modules"))
    return Related(
        impacts=tuple(filter(None, (_impact(line_of(row.get("symbol")), row.get("impact_analysis")) for row in rows))),
        modules=tuple(filter(None, (line_of(module, 50) for module in modules))),
        careful=any(object_of(row.get("impact_analysis")).get(name) for row in rows for name in _RISKY),
    )


def _title(task: Task) -> str:
    return _line(f"{task.ticket.key}: {task.title}", _LONGEST_TITLE)


def _first_paragraph(analysis: str) -> str:
    """Return the first paragraph of a Markdown document that is not a heading, table, list or code."""
    for paragraph in re.split(r"\n\s*\n", analysis.replace("\r\n", "\n").strip()):
        lines = [line.strip() for line in paragraph.splitlines() if not line.startswith("#")]
        text = " ".join(lines).strip()
        if text and not text.startswith(("|", "```", "~~~", "- ", "* ", "<")):
            return _line(text, _LONGEST_SUMMARY)
    return ""


def _changes(task: Task) -> str:
    return _list(
        f"Step {step.step_id}: {step.description} ({', '.join(sha[:12] for sha in step.commits) or 'no commit'})"
        for step in task.steps
    )


def _results(task: Task) -> str:
    unseen = (
        "**No check ran: nothing shows that this change works.**"
        if nothing_ran(task.evaluation.checks, task.evaluation.results)
        else ""
    )
    rows = [
        f"| {_cell(name)} | {one.verdict} | {'' if one.seconds is None else f'{one.seconds:.1f} s'} |"
        for name, one in task.evaluation.results.items()
    ]
    table = "\n".join(("| Stage | Status | Duration |", "|---|---|---|", *rows)) if rows else ""
    return "\n\n".join(filter(None, (unseen, table)))


def _impact(symbol: str, analysis: Json) -> str:
    """Return one impact on a line, given as a text or as groups of related symbols."""
    groups = object_of(analysis)
    told = line_of(analysis, _LONGEST_LINE) or "; ".join(
        f"{line_of(name)}: {', '.join(filter(None, (line_of(item, 80) for item in _several(found))))}"
        for name, found in groups.items()
        if found
    )
    return ": ".join(filter(None, (f"`{symbol}`" if symbol else "", told)))


def _several(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _kind(subject: str) -> str:
    return next((name for name, words in _KINDS if words.search(subject)), "Implementation")


def _list(items: Iterable[str]) -> str:
    listed = [f"- {_line(item)}" for item in items]
    more = [f"- … and {len(listed) - MOST_ITEMS} more"] if len(listed) > MOST_ITEMS else []
    return "\n".join((*listed[:MOST_ITEMS], *more))


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _line(text: str, limit: int = _LONGEST_LINE) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
