"""Schemas of what an operator reads about the whole: the night report and statistics."""

from collections.abc import Mapping
from datetime import datetime

from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.reporting.history import IncidentKind
from orchestrator.daemon.reporting.statistics import Dimension
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.tasks import SpentView


class CheckVerdictView(View):
    """The verdict of a check in the newest evaluation."""

    name: Words
    verdict: Verdict


class PatternView(View):
    """What several failures of a task have in common."""

    pattern: Words
    occurrences: int


class ReportedTaskView(View):
    """A task that ended or was blocked; `spent` is what it used in the span of the report.

    `branch`, `pullRequest`, `tag` and `report` are empty where there is none. `isUnchecked` says that no check ran.
    """

    id: str
    title: Words
    ticket: Words
    status: TaskStatus
    at: datetime
    stage: str
    repo: str
    pipeline: str
    branch: str
    commit: str
    pull_request: str
    is_merged: bool
    tag: str
    report: str
    checks: tuple[CheckVerdictView, ...]
    is_unchecked: bool
    reason: Words
    failures: int
    patterns: tuple[PatternView, ...]
    next: Words
    spent: SpentView


class WaitingView(View):
    """What waits for a person now, and the command that answers: a question, a review, a dependency, a blocked task."""

    task: str
    title: Words
    kind: str
    text: Words
    command: Words
    since: datetime


class IncidentView(View):
    """Something unusual that happened to a task in its decision `seq`; a limit has its `window` and its end."""

    task: str
    at: datetime
    seq: int
    kind: IncidentKind
    stage: str
    text: Words
    window: Words
    until: datetime | None


class StopView(View):
    """Why a task stood still, how often and for how long in all, since the first time in the span of the report.

    `reason` is what it waited for: a run window, a usage limit, an answer, a slot; `isOver` says that it went on.
    """

    task: str
    title: Words
    reason: str
    times: int
    seconds: float
    since: datetime
    is_over: bool


class ShareView(View):
    """What was spent under a name."""

    name: Words
    spent: SpentView


class ClosedWindowView(View):
    """A usage window that is used up now, and until when, if that is known."""

    window: Words
    until: datetime | None


class MachineView(View):
    """How the machine and the daemon are now; sizes in bytes.

    `freed_bytes` is what was freed in the span, in `freed_items` removals by `prune` and by housekeeping.
    `deadChannels` says since when and why a channel of notices does not work.
    """

    free_bytes: int
    total_bytes: int
    free_space_floor: int
    daemon_started_at: datetime
    running: int
    queued: int
    limits: tuple[ClosedWindowView, ...]
    freed_bytes: int
    freed_items: int
    dead_channels: Mapping[str, Words]


class ReportView(View):
    """What happened from `since` until `until`, and what waits for a person now.

    `counts` says how many tasks came into each status, `shares` who spent how much: by task, pipeline, role, model and
    repo. `limitsMet` are the times that an agent met a usage limit; `incidents` whatever else was unusual, the newest,
    while `incidentCounts` counts all. `stops` say which tasks stood still, why and how long, `notes`
    what is left out.
    """

    since: datetime
    until: datetime
    made_at: datetime
    counts: Mapping[TaskStatus, int]
    finished: tuple[ReportedTaskView, ...]
    problems: tuple[ReportedTaskView, ...]
    waiting: tuple[WaitingView, ...]
    spent: SpentView
    shares: Mapping[str, tuple[ShareView, ...]]
    limits_met: tuple[IncidentView, ...]
    incidents: tuple[IncidentView, ...]
    incident_counts: Mapping[IncidentKind, int]
    stops: tuple[StopView, ...]
    machine: MachineView
    notes: tuple[Words, ...]


class TallyView(View):
    """How many tasks came into a status, and what was spent."""

    completed: int
    failed: int
    blocked: int
    cancelled: int
    spent: SpentView


class DivisionView(View):
    """What happened under one name, in all and on each day on which anything did; roles and models only spend."""

    name: Words
    total: TallyView
    by_day: Mapping[str, TallyView]


class StatisticsView(View):
    """Statistics of some days (UTC), the last of which is today; `notes` say what is left out."""

    days: tuple[str, ...]
    total: TallyView
    by_day: Mapping[str, TallyView]
    divisions: Mapping[Dimension, tuple[DivisionView, ...]]
    notes: tuple[Words, ...]
