"""The histories of all tasks that did something since a time or stand still, kept in memory.

Journals only grow, so a history goes on where its last reading ended, and that of an ended task is read once. Reading
happens in a thread, one reader at a time.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from orchestrator.core.decide.final_message import ended_at, recommended, report_file, top_patterns
from orchestrator.core.task.checks import Verdict, nothing_ran
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.reporting.history import TaskHistory
from orchestrator.daemon.reporting.stops import stands_still
from orchestrator.daemon.services.task_index import ListedTask, TaskIndex
from orchestrator.formats.codec import stamp
from orchestrator.storage.records import Cursor, EventRecord, StoreError
from orchestrator.supervisor.protocols import Store

T = TypeVar("T")

log = structlog.get_logger()

MOST_TASKS = 5000
"""How many tasks are read for one answer, those that changed last; so many histories stay in memory."""
MOST_PATTERNS, LONGEST_REASON = 5, 600


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What reports say of a task as it is now; `ended_at` is a stamp, `next` what a person should do about it.

    `checks` has the verdict of each check, and `is_unchecked` says that none ran. `patterns` recur in its failures.
    """

    id: str
    title: str
    ticket: str
    status: TaskStatus
    stage: str
    repo: str
    pipeline: str
    branch: str
    commit: str
    pull_request: str
    is_merged: bool
    tag: str
    report: str
    checks: tuple[tuple[str, Verdict], ...]
    is_unchecked: bool
    ended_at: str
    reason: str
    failures: int
    patterns: tuple[tuple[str, int], ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task as it is, and what its journal tells."""

    outcome: TaskOutcome
    history: TaskHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The tasks that did something or stand still, those that changed last first; `left_out` of them were not read.

    `unreadable` names tasks whose files cannot be read.
    """

    tasks: tuple[TaskRecord, ...]
    left_out: int
    unreadable: tuple[str, ...]


@dataclass(slots=True)
class _Known:
    """A history, how far its journal was read, and of an ended task when it changed last and what became of it."""

    history: TaskHistory
    cursor: Cursor
    updated_at: str = ""
    outcome: TaskOutcome | None = None


@dataclass(slots=True, kw_only=True)
class Histories:
    """Reads the histories of tasks."""

    index: TaskIndex
    store: Store
    _known: dict[str, _Known] = field(default_factory=dict)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def compose(self, at: str, make: Callable[[Records], T]) -> T:
        """Return what is made of every task that has changed since a stamp, or has stood still since before it.

        No history changes meanwhile.
        """
        listed = await self.index.all_tasks()
        async with self._reading:
            return await aside(lambda: make(self._read_all(listed, at)))

    def _read_all(self, listed: list[ListedTask], at: str) -> Records:
        self._forget({one.id for one in listed})
        changed = (one for one in listed if _updated_at(one) >= at or (isinstance(one, Task) and stands_still(one)))
        wanted = sorted(changed, key=_updated_at, reverse=True)
        found: list[TaskRecord] = []
        unreadable: list[str] = []
        for one in wanted[:MOST_TASKS]:
            try:
                found.append(self._read(one))
            except (StoreError, OSError) as error:
                log.warning("history_not_read", task=one.id, error=str(error))
                unreadable.append(one.id)
        return Records(tasks=tuple(found), left_out=max(0, len(wanted) - MOST_TASKS), unreadable=tuple(unreadable))

    def _read(self, one: ListedTask) -> TaskRecord:
        known = self._known.get(one.id)
        if known is None:
            known = self._known[one.id] = _Known(TaskHistory(), Cursor(number=0))
        updated_at = _updated_at(one)
        if isinstance(one, Task):
            if known.history.seq < one.seq:
                self._read_on(one.id, known)
            if known.history.seq < one.seq:  # the journal was restored, so that it is shorter than what was read
                known = self._known[one.id] = _Known(TaskHistory(), Cursor(number=0))
                self._read_on(one.id, known)
            return TaskRecord(outcome=outcome_of(one), history=known.history)
        if known.outcome is None or known.updated_at != updated_at:
            self._read_on(one.id, known)
            known.outcome, known.updated_at = outcome_of(self.store.load(one.id).task), updated_at
        return TaskRecord(outcome=known.outcome, history=known.history)

    def _read_on(self, task_id: str, known: _Known) -> None:
        while True:
            found, cursor = self.store.events.read_task(task_id, known.cursor)
            if not found:
                return
            known.cursor = cursor
            for one in found:
                if isinstance(one, EventRecord):
                    known.history.add(one.line)
                else:
                    known.history.unread += 1

    def _forget(self, listed: Iterable[str]) -> None:
        """Drop deleted tasks, and the oldest of too many."""
        for task_id in self._known.keys() - set(listed):
            del self._known[task_id]
        for task_id in list(self._known)[: max(0, len(self._known) - 2 * MOST_TASKS)]:
            del self._known[task_id]


def outcome_of(task: Task) -> TaskOutcome:
    """Return what reports say of a task."""
    published, source = task.publication, task.source
    needs_person = task.status in (TaskStatus.BLOCKED, TaskStatus.FAILED)
    report = report_file(task)
    return TaskOutcome(
        id=task.id,
        title=task.title,
        ticket=task.ticket.key,
        status=task.status,
        stage=task.stage,
        repo=source.plain_folder or source.repo,
        pipeline=task.pipeline,
        branch="" if source.head in {None, source.base_commit} else source.branch,
        commit=source.commit,
        pull_request=published.pr_url or "",
        is_merged=bool(published.merge_commit),
        tag=published.tag or "",
        report=task.display_path(report) if report else "",
        checks=tuple((name, result.verdict) for name, result in task.evaluation.results.items()),
        is_unchecked=nothing_ran(task.evaluation.checks, task.evaluation.results),
        ended_at=stamp(ended_at(task)),
        reason=(task.block_reason or "")[:LONGEST_REASON],
        failures=task.failures.total,
        patterns=tuple((one.pattern, one.occurrences) for one in top_patterns(task)[:MOST_PATTERNS]),
        next=recommended(task) if needs_person else "",
    )


def _updated_at(one: ListedTask) -> str:
    return stamp(one.updated_at) if isinstance(one, Task) else one.updated_at
