"""What a task leaves to read: test-report.md of each evaluation, summary.md at its end, BLOCKED-summary.md at a halt.

They say nothing that the state does not, so they are not waited for: one that a crash kept from the disk is written at
the next start, one that the disk refused with the next decision.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

import structlog

from orchestrator.core.decide.work.checks import evaluations
from orchestrator.core.events.events import Event
from orchestrator.core.task.checks import REPORT_FILE
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.summary import BLOCKED_FILE, SUMMARY_FILE, Change, blocked_summary, summary
from orchestrator.errors import OrchestratorError
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation import test_report
from orchestrator.workspaces.evaluation.check_file import changed_on_branch
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

SAID = frozenset({TaskStatus.REVIEW, TaskStatus.BLOCKED, TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED})
"""What a task of these has come to is summed up."""

_Told = tuple[int, tuple[str, ...]]


def change_of(workspace: Workspace, task: Task) -> Change:
    """What a task has changed since its base commit, as far as its clone can still be read. Blocks for a moment."""
    if task.source.head is None or task.source.head == task.source.base_commit:
        return Change(size="nothing was committed")
    try:
        size = workspace.diff_stat(task.id, task.source.base_commit, task.source.head)
        differ = changed_on_branch(workspace.git_of(task.id), task.source.base_commit, task.source.head)
    except (OrchestratorError, OSError) as error:
        log.warning("change_not_measured", task=task.id, error=str(error))
        return Change(size="not to be told: its commits cannot be read")
    said = f"{size.files} files, {size.added} lines added, {size.removed} removed"
    return Change(size=said, checks_differ=differ)


@dataclass(slots=True)
class _Known:
    """What of a task was written: its newest report, since when that stands, and the summary of what."""

    told: _Told | None = None
    since: datetime | None = None
    summed_up: tuple[str | int | None, ...] | None = None


class Reports:
    """Keeps what tasks leave to read up to date with what is decided; `change_of` blocks for a moment."""

    def __init__(
        self,
        pipeline_of: Callable[[Task], Pipeline],
        change_of: Callable[[Task], Change],
        redact: Callable[[str], str],
        files: TaskFiles,
    ) -> None:
        self._pipeline_of, self._change_of, self._redact, self._files = pipeline_of, change_of, redact, files
        self._known: dict[str, _Known] = {}

    def decided(self, task: Task, event: Event) -> None:
        """Write what a decision has concluded, explained or brought to an end."""
        self._tell(task, event.at)
        self._sum_up(task)
        if task.status.is_final and task.run is None:
            self._known.pop(task.id, None)

    def catch_up(self, task: Task) -> None:
        """Write what is missing: the reports of the newest evaluation, the summary of a halt."""
        if test_report.is_evaluated(task) and not all(self._files.has(task.id, name) for name in self._names(task)):
            self._tell(task, task.updated_at)
        if not self._files.has(task.id, BLOCKED_FILE if task.status is TaskStatus.BLOCKED else SUMMARY_FILE):
            self._sum_up(task)

    def _tell(self, task: Task, at: datetime) -> None:
        if not test_report.is_evaluated(task):
            return
        number = evaluations(self._pipeline_of(task), task)
        told = (number, tuple(entry.id for entry in test_report.failures_of_evaluation(task)))
        known = self._known.setdefault(task.id, _Known())
        if known.told == told:
            return
        concluded = known.since if known.told and known.since and known.told[0] == number else at
        if self._written(task, {name: test_report.test_report(task, concluded) for name in self._names(task)}):
            known.told, known.since = told, concluded

    def _sum_up(self, task: Task) -> None:
        if task.status not in SAID:
            return
        published = task.publication
        come_to = (
            task.status,
            task.source.head,
            task.failures.total,
            task.block_reason,
            published.pr_url,
            published.tag,
        )
        known = self._known.setdefault(task.id, _Known())
        if known.summed_up != come_to and self._written(task, self._summaries(task)):
            known.summed_up = come_to

    def _summaries(self, task: Task) -> dict[str, str]:
        if task.status is TaskStatus.BLOCKED:
            return {BLOCKED_FILE: blocked_summary(task)}
        return {SUMMARY_FILE: summary(task, self._change_of(task))}

    def _written(self, task: Task, files: Mapping[str, str]) -> bool:
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
