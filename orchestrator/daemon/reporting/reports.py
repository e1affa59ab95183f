"""The reports of a task: test-report.md of each evaluation, summary.md at its end, BLOCKED-summary.md when it blocks,
and review-feedback-N.md of a round that a person asks for here.

They are derived from the state, so nobody waits for them: a report that a crash prevented is written at the next start,
one that the disk refused with the next decision.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

import orjson
import structlog

from orchestrator.core.decide.publishing import APPROVED
from orchestrator.core.decide.work.checks import evaluations
from orchestrator.core.events.events import AskAnswered, Event
from orchestrator.core.task.checks import REPORT_FILE
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.reporting.summary import BLOCKED_FILE, SUMMARY_FILE, Change, blocked_summary, summary
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.publishing.feedback import FEEDBACK, words_of_person
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation import test_report
from orchestrator.workspaces.evaluation.attention import look_first
from orchestrator.workspaces.evaluation.check_file import changed_on_branch
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

REPORTED = frozenset(
    {TaskStatus.REVIEW, TaskStatus.BLOCKED, TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED}
)
"""A task in one of these states gets a summary."""

_ReportKey = tuple[int, tuple[str, ...]]


def change_of(workspace: Workspace, task: Task) -> Change:
    """Return what a task changed since its base commit, as far as its clone can be read. Blocks for a moment."""
    if task.source.head is None or task.source.head == task.source.base_commit:
        return Change(size="nothing was committed")
    try:
        size = workspace.diff_stat(task.id, task.source.base_commit, task.source.head)
        git = workspace.git_of(task.id)
        differ = changed_on_branch(git, task.source.base_commit, task.source.head)
        first = look_first(git, task.source.base_commit, task.source.head, task.evaluation.checks)
    except (OrchestratorError, OSError) as error:
        log.warning("change_not_measured", task=task.id, error=str(error))
        return Change(size="unknown: its commits cannot be read")
    words = f"{size.files} files, {size.added} lines added, {size.removed} removed"
    return Change(size=words, checks_differ=differ, look_first=first)


@dataclass(slots=True)
class _Written:
    """What was written for a task: its newest test report and its date, and what its summary covers."""

    report: _ReportKey | None = None
    since: datetime | None = None
    summed_up: tuple[str | int | None, ...] | None = None


class Reports:
    """Keeps the reports of all tasks up to date with decisions; `change_of` blocks for a moment."""

    def __init__(
        self,
        pipeline_of: Callable[[Task], Pipeline],
        change_of: Callable[[Task], Change],
        redact: Callable[[str], str],
        files: TaskFiles,
    ) -> None:
        self._pipeline_of, self._change_of, self._redact, self._files = pipeline_of, change_of, redact, files
        self._known: dict[str, _Written] = {}

    def on_decision(self, task: Task, event: Event) -> None:
        """Write the reports that a decision completes or changes."""
        self._write_report(task, event.at)
        self._write_summary(task)
        if isinstance(event, AskAnswered):
            self._write_feedback(task)
        if task.status.is_final and task.run is None:
            self._known.pop(task.id, None)

    def catch_up(self, task: Task) -> None:
        """Write what is missing: the reports of the newest evaluation, and the summary."""
        if test_report.is_evaluated(task) and not all(self._files.has(task.id, name) for name in self._names(task)):
            self._write_report(task, task.updated_at)
        if not self._files.has(task.id, BLOCKED_FILE if task.status is TaskStatus.BLOCKED else SUMMARY_FILE):
            self._write_summary(task)
        self._write_feedback(task)

    def _write_feedback(self, task: Task) -> None:
        """Write what a person asks for in the present round, unless the round has its feedback from the forge."""
        if not task.publication.round or self._files.has(task.id, f"{FEEDBACK}{task.publication.round}.md"):
            return
        asked = [request for request in task.requests if request.draft.subject in APPROVED and request.answered_at]
        new = words_of_person(task, asked[-1]) if asked else None
        if new is not None:
            document = orjson.dumps(new.document, option=orjson.OPT_INDENT_2).decode()
            self._write(task, {f"{new.name}.json": document, f"{new.name}.md": new.markdown})

    def _write_report(self, task: Task, at: datetime) -> None:
        if not test_report.is_evaluated(task):
            return
        number = evaluations(self._pipeline_of(task), task)
        report = (number, tuple(entry.id for entry in test_report.failures_of_evaluation(task)))
        known = self._known.setdefault(task.id, _Written())
        if known.report == report:
            return
        concluded = known.since if known.report and known.since and known.report[0] == number else at
        text = test_report.test_report(task, concluded, self._change_of(task).look_first)
        if self._write(task, dict.fromkeys(self._names(task), text)):
            known.report, known.since = report, concluded

    def _write_summary(self, task: Task) -> None:
        if task.status not in REPORTED:
            return
        published = task.publication
        covers = (
            task.status,
            task.source.head,
            task.failures.total,
            task.block_reason,
            published.pr_url,
            published.tag,
        )
        known = self._known.setdefault(task.id, _Written())
        if known.summed_up != covers and self._write(task, self._summaries(task)):
            known.summed_up = covers

    def _summaries(self, task: Task) -> dict[str, str]:
        if task.status is TaskStatus.BLOCKED:
            return {BLOCKED_FILE: blocked_summary(task)}
        return {SUMMARY_FILE: summary(task, self._change_of(task))}

    def _write(self, task: Task, files: Mapping[str, str]) -> bool:
        try:
            for name, text in files.items():
                self._files.write(task.id, name, self._redact(text).encode("utf-8", "replace"))
        except OSError as error:
            log.warning("report_not_written", task=task.id, files=sorted(files), error=str(error))
            return False
        return True

    def _names(self, task: Task) -> tuple[str, str]:
        number, newest = evaluations(self._pipeline_of(task), task), PurePath(REPORT_FILE)
        return newest.name, f"{newest.stem}-{number}{newest.suffix}"
