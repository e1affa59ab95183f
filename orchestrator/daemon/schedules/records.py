"""Schedules of recurring tasks as values, and how they are kept: `<data>/schedules/<id>.json`, one file each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.task_factory import Submission
from orchestrator.formats.codec import stamp
from orchestrator.formats.files import make_private, read_file, sync_folder
from orchestrator.formats.versioned import decode_versioned, write_versioned
from orchestrator.settings.sections.windows import zone_of
from orchestrator.supervisor.recurrence import parse_recurrence

log = structlog.get_logger()

FOLDER, FORMAT = "schedules", 1
MOST_RUNS = 100
"""How many runs a schedule keeps on record: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledWork:
    """What each task of a schedule is submitted with, as in a submission."""

    text: str
    repo: str
    title: str = ""
    pipeline: str | None = None
    type: TicketType | None = None
    base: str | None = None
    priority: Priority | None = None
    checks: Mapping[str, str] = field(default_factory=dict)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: float | None = None
    no_git: bool = False

    def submission(self) -> Submission:
        """Return the submission of one task; a second task of a named ticket is meant."""
        return Submission(
            text=self.text,
            repo=Path(self.repo),
            title=self.title,
            pipeline=self.pipeline,
            type=self.type,
            base=self.base,
            priority=self.priority,
            checks=self.checks,
            autonomy=self.autonomy,
            on_blocked=self.on_blocked,
            auto_merge=self.auto_merge,
            usd=self.usd,
            no_git=self.no_git,
            again=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """What became of a time at which a task was due; `count` times were missed together, the last of them at `due`."""

    due: datetime
    at: datetime
    result: RunResult
    task: str | None = None
    reason: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRun:
    """A task that is being submitted for a time; `reason` says why, if it is not simply due, or why it was not yet."""

    due: datetime
    since: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSchedule:
    """When a task is submitted again and again. All times until `handled` are on record, or being `pending`."""

    id: str
    line: str
    zone: str
    work: ScheduledWork
    overlap: Overlap = Overlap.REFUSE
    missed: Missed = Missed.TELL
    created_at: datetime
    created_by: str
    paused_by: str | None = None
    handled: datetime
    pending: PendingRun | None = None
    runs: tuple[ScheduledRun, ...] = ()

    def key(self, due: datetime) -> str:
        """Return what marks the one task of a time."""
        return f"{self.id}@{stamp(due)}"

    def with_run(self, run: ScheduledRun) -> "TaskSchedule":
        """Return the schedule with one more run on record."""
        return replace(self, runs=(*self.runs, run)[-MOST_RUNS:])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    schedule: TaskSchedule


def _schedule_in(content: bytes | None, name: str) -> TaskSchedule:
    """Return the schedule that a file of this name holds. Raises ValueError."""
    schedule = decode_versioned(_Document, content, FORMAT).schedule
    if schedule.id != name:
        raise ValueError(f"it holds the schedule {schedule.id!r}, which is kept in {schedule.id}.json")
    parse_recurrence(schedule.line, zone_of(schedule.zone))
    return schedule


class ScheduleStore:
    """The files of the schedules; every method blocks."""

    def __init__(self, data_dir: Path) -> None:
        self.unreadable: set[str] = set()
        """The names of files that could not be read; they stay as they are."""
        self._folder = data_dir / FOLDER

    def load(self) -> dict[str, TaskSchedule]:
        """Return every schedule that can be read, by its id; of others the log tells."""
        found = {}
        for path in sorted(self._folder.glob("*.json")):
            try:
                found[path.stem] = _schedule_in(read_file(path), path.stem)
            except (OSError, ValueError) as error:
                log.warning("schedule_unreadable", path=str(path), error=str(error))
                self.unreadable.add(path.stem)
        return found

    def save(self, schedule: TaskSchedule) -> None:
        """Store a schedule. Raises OSError."""
        path = make_private(self._folder) / f"{schedule.id}.json"
        write_versioned(path, _Document(schedule=schedule), FORMAT, indent=True)

    def remove(self, schedule_id: str) -> None:
        """Remove a schedule. Raises OSError."""
        (self._folder / f"{schedule_id}.json").unlink(missing_ok=True)
        sync_folder(self._folder)
