"""What a batch begins with: the issues, from a file or from the text, and what is to be done with each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import orjson

from orchestrator.core.family.family import Begun, Files, Submitted
from orchestrator.core.task.children import ChildDraft
from orchestrator.pipelines.families.issues.document import Fields, InvalidField
from orchestrator.pipelines.families.issues.issue import Issue, issues_in_text, read_issues, to_lines, unfinished
from orchestrator.pipelines.families.issues.solution import read_solution

ISSUES_FILE, OPTIONS_FILE, SOLUTION_FILE = "issues.jsonl", "batch.json", "solution.json"
LARGEST_FILE = 2 * 1024 * 1024
"""Bytes."""
BOTH, PLAN_ONLY, EXECUTE_ONLY = "issue", "issue-plan", "issue-execute"
"""Pipelines of one issue: planned and carried out, planned only, and carried out with the solution that is bound."""
SINGLE = frozenset({BOTH, PLAN_ONLY, EXECUTE_ONLY})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Which part of the work is left out."""

    skip_plan: bool = False
    skip_execute: bool = False


def read_options(text: str) -> BatchOptions:
    """Return the options in a batch.json; there are none in an empty text. Raises InvalidField."""
    if not text.strip():
        return BatchOptions()
    fields = Fields.parse(text)
    known = ("skip_plan", "skip_execute")
    if unknown := sorted(fields.content.keys() - set(known)):
        raise InvalidField(unknown[0][:80], f"there is no such option; the options are {' and '.join(known)}")
    options = BatchOptions(**{name: bool(fields.flag(name)) for name in known})
    if options.skip_plan and options.skip_execute:
        raise InvalidField("", "a batch that neither plans nor executes has nothing to do; leave one of them out")
    return options


def begin(submitted: Submitted, files: Files) -> Begun:
    """Return how a batch begins: with the unfinished issues of its file, or of its text. Raises InvalidField.

    A task for one issue begins as it was submitted.
    """
    del files
    if submitted.pipeline in SINGLE:
        return _begin_single(submitted)
    options = read_options(submitted.files.get(OPTIONS_FILE, ""))
    given = submitted.files.get(ISSUES_FILE)
    whole = issues_in_text(submitted.text) if given is None else read_issues(given)
    issues = tuple(issue for issue in unfinished(whole) if not (options.skip_execute and issue.solution))
    if not issues:
        done = "planned" if options.skip_execute else "completed"
        raise InvalidField("", f"nothing is left to do: all {len(whole)} issues are {done}")
    if options.skip_plan:
        for issue in issues:
            if issue.solution is None:
                raise InvalidField(issue.id, "it has no solution, and this batch does not plan any; give it one")
    kept = {issue.id for issue in issues}
    left = [replace(one, depends_on=tuple(name for name in one.depends_on if name in kept)) for one in issues]
    lines = to_lines(left)
    if len(lines.encode()) > LARGEST_FILE:
        raise InvalidField("", f"the issues have more than {LARGEST_FILE >> 20} MiB; divide them among batches")
    return Begun(files={ISSUES_FILE: lines, OPTIONS_FILE: submitted.files.get(OPTIONS_FILE, "{}")})


def _begin_single(submitted: Submitted) -> Begun:
    if submitted.files.keys() - {SOLUTION_FILE}:
        raise InvalidField("", f"{submitted.pipeline} is for one issue; submit a list of them to issue-plan-execute")
    solution = submitted.files.get(SOLUTION_FILE)
    if solution is not None:
        read_solution(solution)
    elif submitted.pipeline == EXECUTE_ONLY:
        raise InvalidField(SOLUTION_FILE, "it is missing; issue-execute carries out a solution that exists")
    return Begun()


def read_children(text: str, files: Files) -> tuple[ChildDraft, ...]:
    """Return each issue as a child: its text is its ticket, with the solution if one is bound. Raises InvalidField."""
    options = read_options(files.artifact(OPTIONS_FILE) or "")
    return tuple(_draft(issue, options) for issue in read_issues(text))


def _draft(issue: Issue, options: BatchOptions) -> ChildDraft:
    pipeline = PLAN_ONLY if options.skip_execute else EXECUTE_ONLY if issue.solution else BOTH
    bound = {SOLUTION_FILE: orjson.dumps(issue.solution.document).decode()} if issue.solution else {}
    return ChildDraft(
        key=issue.id, title=issue.title, text=_text(issue), after=issue.depends_on, pipeline=pipeline, files=bound
    )


def _text(issue: Issue) -> str:
    facts: Mapping[str, str] = MappingProxyType(
        {"Priority": issue.priority, "Tags": ", ".join(issue.tags), "Source": issue.url}
    )
    parts = [issue.description.strip() or issue.title]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts.items() if value))
    if issue.feedback:
        parts.append("## What earlier tries came to\n\n" + "\n".join(f"- {_line(note)}" for note in issue.feedback))
    if issue.solution:
        parts.append(f"## Bound solution\n\n{issue.solution.id}: {_line(issue.solution.description)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())
