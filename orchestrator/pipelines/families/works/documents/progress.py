"""TASK-NN_progress.md: how far the builder of a task is, and the gate that a finished one must pass."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.pipelines.families.works.documents import markdown
from orchestrator.pipelines.families.works.documents.language import Heading, Label, is_label, is_none
from orchestrator.pipelines.families.works.documents.markdown import Document, bare, items, one_line, read_document
from orchestrator.pipelines.families.works.documents.plan import action_of

NOT_FOUND = "progress.md not found"
NOT_COMPLETED = "status not COMPLETED"
NO_FILES = "no files changed"
"""Why a progress file does not pass its gate."""

_WORD = re.compile(r"[A-Z_]+")
_SEPARATOR = re.compile(r" [—–-]+>? | ?— ?| \(|: ")
_LONGEST_PATH = 1000
MOST_FILES = 2000


class ProgressStatus(StrEnum):
    """How far a task is, as its builder says."""

    PENDING = "PENDING"
    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a task changed, and how: CREATE, MODIFY or DELETE."""

    path: str
    action: str = "MODIFY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A progress file; `status` is None where it names none that is known."""

    task: str = ""
    status: ProgressStatus | None = None
    started: str = ""
    updated: str = ""
    files: tuple[ChangedFile, ...] = field(default=())


def read_progress(text: str) -> Progress:
    """Return what a progress file says; the changed files in a nested list, or in a section of their own.

    Raises ValueError, with words for its author, if it is too large.
    """
    document = read_document(text, "the progress file")
    lines = tuple(line for section in document.sections for line in section.lines)
    status = _WORD.match(bare(markdown.field(lines, Label.STATUS) or "").upper().replace(" ", "_"))
    known = status[0].strip("_") if status else ""
    return Progress(
        task=document.title,
        status=ProgressStatus(known) if known in tuple(ProgressStatus) else None,
        started=markdown.field(lines, Label.STARTED) or "",
        updated=markdown.field(lines, Label.UPDATED) or "",
        files=tuple(dict.fromkeys(_changed_files(document)))[:MOST_FILES],
    )


def gate(text: str | None) -> str:
    """Return why a progress file does not pass, None standing for a missing one; empty if it passes."""
    if text is None:
        return NOT_FOUND
    try:
        progress = read_progress(text)
    except ValueError as error:
        return str(error)
    if progress.status is not ProgressStatus.COMPLETED:
        return NOT_COMPLETED
    return "" if progress.files else NO_FILES


def write_progress(progress: Progress) -> str:
    """Return a progress file; its words are the same in every language."""
    files = "".join(f"\n  - `{one_line(one.path)}` — {one.action}" for one in progress.files)
    return (
        f"# {progress.task} Progress\n\n- Status: {progress.status or ProgressStatus.PENDING}\n"
        f"- Started: {progress.started or '-'}\n- Updated: {progress.updated or '-'}\n- Files changed:{files}\n"
    )


def _changed_files(document: Document) -> Iterable[ChangedFile]:
    for item in items(document.body(Heading.FILES_CHANGED)):
        yield from _changed_file(item.text)
    for section in document.sections:
        for number, value in markdown.fields(section.lines, Label.FILES_CHANGED):
            for path in value.split(","):
                yield from _changed_file(path)
            yield from _nested(section.lines[number:])
            return


def _nested(lines: tuple[markdown.Line, ...]) -> Iterable[ChangedFile]:
    """Yield the files of the list items that are indented below the first one."""
    found = tuple(items(lines))
    margin = found[0].indent if found and is_label(found[0].text.partition(":")[0], Label.FILES_CHANGED) else -1
    for item in found[margin >= 0 :]:
        if item.indent <= margin:
            return
        yield from _changed_file(item.text)


def _changed_file(text: str) -> Iterable[ChangedFile]:
    first, *others = _SEPARATOR.split(one_line(text)[: 2 * _LONGEST_PATH], maxsplit=1)
    rest = others[0] if others else ""
    if "`" in first:
        path = first.split("`")[1]
        rest = f"{rest} {first.replace(path, '')}"
    elif rest and first.isupper() and action_of(first):
        path, rest = rest, first
    else:
        path = first
    if not is_none(path) and len(path) <= _LONGEST_PATH:
        yield ChangedFile(path=bare(path), action=action_of(rest) or "MODIFY")
