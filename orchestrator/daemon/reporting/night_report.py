"""The night report: what happened since a time, composed from the histories of tasks and what waits now."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import how_to_answer
from orchestrator.daemon.inspection.attention import Attention, AttentionService
from orchestrator.daemon.reporting.histories import Histories, Records, TaskOutcome, TaskRecord
from orchestrator.daemon.reporting.history import Charge, Incident, IncidentKind, spent_in
from orchestrator.daemon.reporting.stops import ReportedStop, stops_of
from orchestrator.daemon.services.limits import LimitService
from orchestrator.formats.codec import stamp, time_of
from orchestrator.settings.settings import Settings
from orchestrator.storage.removal.log import RemovalLog

USUAL_SPAN = timedelta(hours=24)
"""What a report covers unless a time is given."""
MOST_TASKS, MOST_INCIDENTS, MOST_SHARES, MOST_STOPS = 200, 200, 50, 500
"""How many tasks, incidents, shares of the spending and stops each list names; the rest is counted."""

NoteSource = Callable[[datetime, datetime], Awaitable[Sequence[str]]]
"""Returns what else to note of a time, such as work that did not come in."""

ENDS = (TaskStatus.FAILED, TaskStatus.BLOCKED, TaskStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTask:
    """A task that ended or was blocked in the span: when, as a stamp, and what it used of that in the span."""

    task: TaskOutcome
    status: TaskStatus
    at: str
    spent: Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits for a person now: of which task, what is wanted, and the command that answers."""

    task: str
    title: str
    kind: str
    text: str
    command: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedIncident:
    """Something unusual, and the task that it happened to."""

    task: str
    incident: Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What was spent under a name."""

    name: str
    spent: Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """How the machine and the daemon are now; sizes in bytes, `limits` are the windows that are used up.

    `freed_bytes` is what housekeeping and people freed in the span, in `freed_items` removals.
    `dead_channels` says of channels of notices since when and why they do not work.
    """

    free_bytes: int
    total_bytes: int
    free_space_floor: int
    daemon_started_at: datetime
    running: int
    queued: int
    limits: tuple[tuple[str, datetime | None], ...]
    freed_bytes: int
    freed_items: int
    dead_channels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """What happened from `since` until `until`, and what waits for a person now.

    `counts` says how many tasks came into each status, `shares` who spent how much: by task, pipeline, role, model and
    repository. `incidents` are the newest, limits and freezes apart; `incident_counts` counts all. `notes` say what is
    left out. `stops` say which tasks stood still for which reason, and how long.
    """

    since: datetime
    until: datetime
    made_at: datetime
    counts: Mapping[TaskStatus, int]
    finished: tuple[ReportedTask, ...]
    problems: tuple[ReportedTask, ...]
    waiting: tuple[Waiting, ...]
    spent: Spending
    shares: Mapping[str, tuple[Share, ...]]
    limits_met: tuple[ReportedIncident, ...]
    incidents: tuple[ReportedIncident, ...]
    incident_counts: Mapping[IncidentKind, int]
    stops: tuple[ReportedStop, ...]
    machine: MachineFacts
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReportService:
    """The use case of the night report; `also_noted` yields what was not done in a span, and why."""

    histories: Histories
    attention: AttentionService
    limits: LimitService
    settings: Callable[[], Settings]
    dead_channels: Callable[[], Mapping[str, str]]
    started_at: datetime
    clock: Callable[[], datetime]
    note_sources: Sequence[NoteSource]

    async def report(self, since: datetime | None, until: datetime | None) -> NightReport:
        """Return the report of a span; without times that of the last 24 hours."""
        now = self.clock()
        end = min(until or now, now)
        begin = since or end - USUAL_SPAN
        waiting, machine = self.attention.list(), await self._machine(begin, end)
        compose = partial(compose_report, (begin, end, now), waiting, machine)
        report = await self.histories.compose(stamp(begin), compose)
        noted = [note for source in self.note_sources for note in await source(begin, end)]
        return replace(report, notes=(*report.notes, *noted))

    async def _machine(self, begin: datetime, end: datetime) -> MachineFacts:
        settings, limits = self.settings(), self.limits.report()
        disk = await asyncio.to_thread(shutil.disk_usage, settings.data_dir)
        items, freed = await asyncio.to_thread(RemovalLog(settings.data_dir).freed, stamp(begin), stamp(end))
        tasks = limits.snapshot.tasks
        return MachineFacts(
            free_bytes=disk.free,
            total_bytes=disk.total,
            free_space_floor=int(settings.free_space_floor),
            daemon_started_at=self.started_at,
            running=sum(task.holds_slot for task in tasks),
            queued=sum(task.wants_slot for task in tasks),
            limits=tuple((one.window, one.until) for one in limits.active),
            freed_bytes=freed,
            freed_items=items,
            dead_channels=self.dead_channels(),
        )


def compose_report(
    span: tuple[datetime, datetime, datetime],
    waiting: Sequence[Attention],
    machine: MachineFacts,
    records: Records,
) -> NightReport:
    """Return the report of a span: its begin, its end, and the time now."""
    begin, end, now = span
    since, until = stamp(begin), stamp(end)
    reported = [_reported(one, since, until) for one in records.tasks]
    ended = sorted((one for one in reported if one is not None), key=lambda one: one.at)
    finished = [one for one in ended if one.status is TaskStatus.COMPLETED]
    problems = [one for one in ended if one.status in ENDS]
    charges = [(one, list(one.history.charges_between(since, until))) for one in records.tasks]
    incidents = sorted(
        (
            ReportedIncident(task=one.outcome.id, incident=found)
            for one in records.tasks
            for found in one.history.incidents_between(since, until)
        ),
        key=lambda one: (one.incident.at, one.task, one.incident.seq),
    )
    known = {one.outcome.id: one for one in records.tasks}
    met = [one for one in incidents if one.incident.kind is IncidentKind.LIMIT]
    others = [one for one in incidents if one.incident.kind not in (IncidentKind.LIMIT, IncidentKind.FREEZE)]
    stops = [
        found
        for one in records.tasks
        for found in stops_of(one.outcome.id, one.outcome.title, one.history.stops.between(since, until), until)
    ]
    return NightReport(
        since=begin,
        until=end,
        made_at=now,
        counts=_counts(records.tasks, since, until),
        finished=tuple(finished[-MOST_TASKS:]),
        problems=tuple(problems[-MOST_TASKS:]),
        waiting=tuple(_waiting(one, known.get(one.task.id)) for one in waiting[:MOST_TASKS]),
        spent=sum((spent_in(found) for _, found in charges), NOTHING_SPENT),
        shares=_shares(charges),
        limits_met=tuple(met[-MOST_INCIDENTS:]),
        incidents=tuple(others[-MOST_INCIDENTS:]),
        incident_counts=Counter(one.incident.kind for one in incidents),
        stops=tuple(stops[:MOST_STOPS]),
        machine=machine,
        notes=tuple(_notes(records, {"finished tasks": len(finished), "tasks with problems": len(problems),
                                     "things that wait for a person": len(waiting),
                                     "unusual events": len(others)}, len(stops))),
    )  # fmt: skip


def _reported(one: TaskRecord, since: str, until: str) -> ReportedTask | None:
    """Return a task that was completed, failed, cancelled or blocked in the span, and still was at its end."""
    reached = [(at, status) for at, status in one.history.statuses if at < until and status is not TaskStatus.ARCHIVED]
    if not reached or reached[-1][0] < since or reached[-1][1] not in (TaskStatus.COMPLETED, *ENDS):
        return None
    at, status = reached[-1]
    spent = spent_in(list(one.history.charges_between(since, until)))
    return ReportedTask(task=one.outcome, status=status, at=at, spent=spent)


def _counts(tasks: Iterable[TaskRecord], since: str, until: str) -> Mapping[TaskStatus, int]:
    counts: Counter[TaskStatus] = Counter()
    for one in tasks:
        counts.update({status for at, status in one.history.statuses if since <= at < until})
    return counts


def _waiting(one: Attention, record: TaskRecord | None) -> Waiting:
    """Return what waits; a blocked task has waited since it was blocked, whatever was decided about it later."""
    task, request = one.task, one.request
    if request is None:
        statuses = record.history.statuses if record else []
        return Waiting(
            task=task.id,
            title=task.title,
            kind="blocked" if task.status is TaskStatus.BLOCKED else "unreadable",
            text=task.block_reason or "",
            command=_command(task),
            since=time_of(statuses[-1][0]) if statuses else one.since,
        )
    draft = request.draft
    several = len(task.pending_requests) > 1
    return Waiting(
        task=task.id,
        title=task.title,
        kind=request.kind,
        text=draft.text,
        command=how_to_answer(
            task.id, request.kind, draft.subject, draft.name, f" --ask {request.number}" if several else ""
        ),
        since=one.since,
    )


def _command(task: Task) -> str:
    if task.status is TaskStatus.BLOCKED:
        return f"orchestrator retry {task.id}, or orchestrator cancel {task.id}"
    return f"orchestrator checkpoints recover {task.id}"


def _shares(charges: Sequence[tuple[TaskRecord, Sequence[Charge]]]) -> Mapping[str, tuple[Share, ...]]:
    """Return who spent how much, the most first; of many the rest together."""
    found: dict[str, dict[str, Spending]] = {name: {} for name in ("task", "pipeline", "role", "model", "repo")}
    for record, several in charges:
        task = record.outcome
        for one in several:
            names = {
                "task": task.id,
                "pipeline": task.pipeline,
                "role": one.role,
                "model": one.model or "unknown",
                "repo": task.repo,
            }
            for kind, name in names.items():
                found[kind][name] = found[kind].get(name, NOTHING_SPENT) + one.spent
    return {kind: _largest(shares) for kind, shares in found.items()}


def _largest(shares: Mapping[str, Spending]) -> tuple[Share, ...]:
    order = sorted(shares.items(), key=lambda one: (-one[1].usd, -one[1].tokens, one[0]))
    rest = sum((spent for _, spent in order[MOST_SHARES:]), NOTHING_SPENT)
    named = tuple(Share(name=name, spent=spent) for name, spent in order[:MOST_SHARES])
    return (*named, Share(name="all others", spent=rest)) if len(order) > MOST_SHARES else named


def _notes(records: Records, sizes: Mapping[str, int], stops: int) -> Iterable[str]:
    """Yield what the report leaves out."""
    if records.left_out:
        yield f"{records.left_out} tasks that changed longest ago were not read"
    for name in records.unreadable[:10]:
        yield f"the files of {name} cannot be read"
    for name, count in sizes.items():
        if count > MOST_TASKS:
            yield f"only {MOST_TASKS} of {count} {name} are listed"
    if stops > MOST_STOPS:
        yield f"only {MOST_STOPS} of {stops} reasons why tasks stood still are listed"
    unread = sum(one.history.unread for one in records.tasks)
    if unread:
        yield f"{unread} decisions cannot be read"
    dropped = sum(one.history.incidents_left_out for one in records.tasks)
    if dropped:
        yield f"{dropped} older unusual events of tasks with very many are not counted"
