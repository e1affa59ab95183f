"""test-report.md and test-report-<N>.md, written when an evaluation is concluded and again when a failure is explained.

They say nothing that the state does not, so they are not waited for: one that a crash kept from the disk is written at
the next start, one that the disk refused with the next decision.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.core import report
from orchestrator.core.course import REPORT_FILE, evaluations
from orchestrator.core.events import Event
from orchestrator.core.model import Task
from orchestrator.core.pipeline import Pipeline
from orchestrator.files import write_atomically

log = structlog.get_logger()

_Told = tuple[int, tuple[str, ...]]


class Reports:
    """Keeps the reports of tasks up to date with what is decided."""

    def __init__(self, pipeline_of: Callable[[Task], Pipeline], redact: Callable[[str], str]) -> None:
        self._pipeline_of, self._redact = pipeline_of, redact
        self._told: dict[str, tuple[_Told, datetime]] = {}

    def decided(self, task: Task, event: Event) -> None:
        """Write what a decision has concluded or explained."""
        self._tell(task, event.at)
        if task.status.final and task.run is None:
            self._told.pop(task.id, None)

    def catch_up(self, task: Task) -> None:
        """Write the reports of the newest evaluation if one of them is missing."""
        if report.is_evaluated(task) and not all(path.is_file() for path in self._paths(task)):
            self._tell(task, task.updated_at)

    def _tell(self, task: Task, at: datetime) -> None:
        if not report.is_evaluated(task):
            return
        number = evaluations(self._pipeline_of(task), task)
        told = (number, tuple(entry.id for entry in report.failures_of_evaluation(task)))
        known, since = self._told.get(task.id, (None, at))
        if known == told:
            return
        concluded = since if known is not None and known[0] == number else at
        text = self._redact(report.test_report(task, concluded))
        try:
            for path in self._paths(task):
                write_atomically(path, text.encode("utf-8", "replace"))
        except OSError as error:
            log.warning("report_not_written", task=task.id, error=str(error))
            return
        self._told[task.id] = told, concluded

    def _paths(self, task: Task) -> tuple[Path, Path]:
        number = evaluations(self._pipeline_of(task), task)
        newest = Path(task.folder) / REPORT_FILE
        return newest, newest.with_name(f"{newest.stem}-{number}{newest.suffix}")
