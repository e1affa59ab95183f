"""PROGRESS.md: how far a work is, for people, written from what the daemon knows and never read back by it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.pipelines.families.works.documents.language import Heading, Label, Language, title_of
from orchestrator.pipelines.families.works.documents.markdown import bare, cell, field, one_line, read_document, rows
from orchestrator.pipelines.families.works.documents.names import OVERVIEW, task_number, work_id, work_number

MOST_LOG_LINES = 1000


class TaskState(StrEnum):
    """What became of a task of a work."""

    READY = "READY"
    BLOCKED = "BLOCKED"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"

    @property
    def shown(self) -> str:
        """The state as tables show it."""
        return _SHOWN[self]


_SHOWN = {
    TaskState.READY: "⏳ Ready",
    TaskState.BLOCKED: "⏳ Blocked",
    TaskState.IN_PROGRESS: "🔄 In Progress",
    TaskState.DONE: "✅ Done",
    TaskState.FAILED: "❌ Failed",
    TaskState.SKIPPED: "⏭️ Skipped",
}
_OTHER_WORDS = {"pending": TaskState.BLOCKED, "waiting": TaskState.BLOCKED, "completed": TaskState.DONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A line of the table: a task, its state, the short hash of its commit, and how long it took."""

    task: str
    title: str
    state: TaskState
    commit: str = ""
    duration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A PROGRESS.md; each line of the log begins with its time as `[HH:MM]`."""

    work: str
    updated: str
    is_auto: bool = False
    tasks: tuple[TaskRow, ...] = ()
    log: tuple[str, ...] = ()

    def row(self, task: str) -> TaskRow | None:
        """Return the line of a task."""
        return next((row for row in self.tasks if row.task == task), None)


def read_overview(text: str) -> Overview:
    """Return what a PROGRESS.md says. Raises ValueError, with words for its author, if it is too large."""
    document = read_document(text, OVERVIEW)
    lines = tuple(line for section in document.sections for line in section.lines)
    number = work_number(bare(field(lines, Label.WORK) or ""))
    listed = (line.text.strip().removeprefix("- ") for line in document.body(Heading.LOG))
    return Overview(
        work=work_id(number) if number is not None else "",
        updated=field(lines, Label.LAST_UPDATED) or "",
        is_auto=bare(field(lines, Label.MODE_OF_APPROVAL) or "").casefold() == "auto",
        tasks=tuple(_tasks(rows(lines))),
        log=tuple(line for line in listed if line.startswith("["))[:MOST_LOG_LINES],
    )


def write_overview(overview: Overview, language: Language) -> str:
    """Return an overview as a PROGRESS.md."""
    table = "\n".join(
        f"| {row.task} | {cell(row.title)} | {row.state.shown} "
        f"| {cell(row.commit) or '-'} | {cell(row.duration) or '-'} |"
        for row in overview.tasks
    )
    log = "\n".join(one_line(line) for line in overview.log[-MOST_LOG_LINES:])
    return (
        f"# PROGRESS — {overview.work}\n\n"
        f"> WORK: {overview.work}\n> Last updated: {overview.updated}\n"
        f"> Mode: {'auto' if overview.is_auto else 'manual'}\n\n"
        f"| TASK | Title | Status | Commit | Duration |\n|------|-------|--------|--------|----------|\n{table}\n\n"
        f"## {title_of(Heading.LOG, language)}\n{log}\n"
    )


def state_of(text: str) -> TaskState | None:
    """Return the state that a cell of the table shows, None for an unknown one."""
    word = text.casefold()
    for state in TaskState:
        if state.replace("_", " ").casefold() in word or state.casefold() in word:
            return state
    return next((state for known, state in _OTHER_WORDS.items() if known in word), None)


def _tasks(table: Iterable[tuple[str, ...]]) -> Iterable[TaskRow]:
    for row in table:
        task, title, state, commit, duration = (*row, "", "", "", "", "")[:5]
        found = state_of(state)
        if task_number(bare(task)) is not None and found is not None:
            yield TaskRow(
                task=bare(task).upper(), title=title, state=found, commit=_given(commit), duration=_given(duration)
            )


def _given(text: str) -> str:
    return "" if text == "-" else bare(text)
