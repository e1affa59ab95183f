"""Schedules: add, look at, pause, run now and remove recurring tasks, and submit what is due.

Each time of a schedule becomes one task at most, whatever moment the daemon is killed at. What is being submitted is
written down before, and the task carries the mark of its time. After a crash it is looked for by that mark before it is
submitted again.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult, due_times, is_ahead
from orchestrator.core.task.task import Task
from orchestrator.daemon.schedules.ahead import Ahead, next_times, recurrence_of, times_ahead
from orchestrator.daemon.schedules.changes import with_changes
from orchestrator.daemon.schedules.due import free_name, not_submitted, with_times
from orchestrator.daemon.schedules.errors import NoSuchSchedule, ScheduleBusy, ScheduleExists
from orchestrator.daemon.schedules.made import made_on_disk, newest_made, with_made
from orchestrator.daemon.schedules.records import (
    PendingRun,
    ScheduledRun,
    ScheduledWork,
    ScheduleStore,
    TaskSchedule,
)
from orchestrator.daemon.services.errors import NotCommitted, StoreError, SubmissionRefused, Unreachable
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import stamp
from orchestrator.formats.person import person_name
from orchestrator.settings.sections.windows import zone_of
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.protocols import Store
from orchestrator.supervisor.supervisor import Supervisor

log = structlog.get_logger()

MOST_SCHEDULES = 200
LONGEST_PAUSE = 60.0
"""Seconds between two looks at the clock: it may have jumped, or the machine slept."""
TRY_FOR = timedelta(hours=1)
"""How long a submission is tried again that may succeed later: the tracker is out of reach, or the disk is full."""
MAY_PASS = (Unreachable, NotCommitted, StoreError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """What a person asks for; without a name it is named after its title."""

    name: str
    line: str
    zone: str
    work: ScheduledWork
    overlap: Overlap
    missed: Missed


class Tell(Protocol):
    """Tells people something once; `command` shows more of it. Raises OSError."""

    async def __call__(self, key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> bool: ...


@dataclass(slots=True, kw_only=True)
class ScheduleService:
    """The use cases of schedules, and the loop that submits what is due."""

    store: ScheduleStore
    submissions: SubmissionService
    supervisor: Supervisor
    tasks: Store
    clock: Callable[[], datetime]
    tell: Tell
    _known: dict[str, TaskSchedule] | None = None
    _next: dict[tuple[str, str], tuple[datetime, datetime]] = field(default_factory=dict)
    """For a line and zone: a moment, and the time that comes next after it."""
    _interrupted: set[str] = field(default_factory=set)
    _compared: set[str] = field(default_factory=set)
    """The schedules whose records were compared with the tasks on disk since the start of this process."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Submit what is due, until this is cancelled."""
        while True:
            self._changed.clear()
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(await self._pause()):
                    await self._changed.wait()

    async def listed(self) -> list[TaskSchedule]:
        """Return every schedule, by name."""
        found = sorted((await self._all()).values(), key=lambda one: one.id)
        await asyncio.to_thread(lambda: [self.next_time(one) for one in found])
        return found

    async def find(self, name: str) -> TaskSchedule:
        """Return a schedule. Raises NoSuchSchedule."""
        known = await self._all()
        if name not in known:
            raise NoSuchSchedule(name)
        return known[name]

    async def not_submitted(self, since: datetime, until: datetime) -> list[str]:
        """Return what was not submitted between two times, and why, for people."""
        return [
            str(not_submitted(one, run))
            for one in await self.listed()
            for run in one.runs
            if since <= run.at < until and run.result is not RunResult.SUBMITTED
        ]

    def next_time(self, schedule: TaskSchedule) -> datetime | None:
        """Return when its next task is due; None while it is paused."""
        if schedule.paused_by:
            return None
        at, line = max(schedule.handled, self.clock()), (schedule.line, schedule.zone)
        since, found = self._next.get(line, (at, at))
        if not since <= at < found:
            following = recurrence_of(schedule).next_after(at)
            if following is None:
                return None
            self._next[line] = at, (found := following)
        return found

    async def add(self, wanted: NewSchedule, by: str) -> TaskSchedule:
        """Add a schedule whose first task is due at the next time of its line.

        Raises SubmissionRefused, ScheduleExists, and what such a submission would be refused for now.
        """
        title = await self._check(wanted)
        async with self._one_at_a_time:
            known = await self._all()
            if len(known) >= MOST_SCHEDULES:
                raise SubmissionRefused(f"there are {MOST_SCHEDULES} schedules already; remove some of them")
            if wanted.name in known or wanted.name in self.store.unreadable:
                raise ScheduleExists(f"there is a schedule {wanted.name!r}; remove it, or choose another --name")
            schedule = TaskSchedule(
                id=wanted.name or free_name(title, {*known, *self.store.unreadable}),
                line=wanted.line,
                zone=zone_of(wanted.zone).key,
                work=wanted.work,
                overlap=wanted.overlap,
                missed=wanted.missed,
                created_at=self.clock(),
                created_by=by,
                handled=self.clock(),
            )
            await self._save(schedule)
            log.info("schedule_added", schedule=schedule.id, line=schedule.line, zone=schedule.zone, by=by)
            self._changed.set()
            return schedule

    async def change(self, name: str, changes: Mapping[str, Any], by: str) -> TaskSchedule:
        """Change named fields of a schedule or of what it submits; it keeps the rest, its tasks and its record.

        Times before now are not made up for. Raises NoSuchSchedule, and what adding it raises.
        """
        await self._check(with_changes(await self.find(name), changes))
        async with self._one_at_a_time:
            schedule = await self.find(name)
            changed = with_changes(schedule, changes)
            changed = replace(changed, zone=zone_of(changed.zone).key)
            if (changed.line, changed.zone) != (schedule.line, schedule.zone):
                changed = replace(changed, handled=max(schedule.handled, self.clock()))
            log.info("schedule_changed", schedule=name, fields=sorted(changes), by=by)
            self._changed.set()
            return await self._save(changed)

    async def ahead(self, span: timedelta, most: int) -> Ahead:
        """Return what is due within a span of time, at most so many runs, and when run windows are open then."""
        now, windows = self.clock(), self.supervisor.snapshot().capacity.windows
        waking = [one for one in await self.listed() if not one.paused_by]
        return await asyncio.to_thread(times_ahead, waking, windows, now, now + span, most)

    async def next_times(self, line: str, zone: str, count: int) -> list[datetime]:
        """Return the next times of a line, in its zone. Raises SubmissionRefused if it is none."""
        try:
            return await asyncio.to_thread(next_times, line, zone, self.clock(), count)
        except ValueError as error:
            raise SubmissionRefused(str(error)) from error

    async def pause(self, name: str, by: str) -> TaskSchedule:
        """Submit no more tasks of a schedule until it is resumed. Raises NoSuchSchedule."""
        async with self._one_at_a_time:
            schedule = await self._save(replace(await self.find(name), paused_by=by))
            log.info("schedule_paused", schedule=name, by=by)
            return schedule

    async def resume(self, name: str, by: str) -> TaskSchedule:
        """Submit tasks of a schedule again; the times in between count as handled. Raises NoSuchSchedule."""
        async with self._one_at_a_time:
            schedule = await self.find(name)
            log.info("schedule_resumed", schedule=name, by=by)
            self._changed.set()
            now = self.clock()
            if is_ahead(schedule.handled, now):
                schedule = self._put_back(schedule, now)
            handled = max(schedule.handled, now) if schedule.paused_by else schedule.handled
            return await self._save(replace(schedule, paused_by=None, handled=handled))

    async def run_now(self, name: str, by: str) -> TaskSchedule:
        """Submit a task of a schedule now. Raises NoSuchSchedule, ScheduleBusy and what submitting raises."""
        async with self._one_at_a_time:
            schedule, now = await self.find(name), self.clock()
            if refused := self._overlapping(schedule):
                raise ScheduleBusy(refused)
            schedule = await self._save(
                replace(schedule, pending=PendingRun(due=now, since=now, reason=f"run by {person_name(by)}"))
            )
            try:
                task = await self._submitted(schedule, now, by)
            except (OrchestratorError, OSError):
                await self._save(replace(schedule, pending=None))
                raise
            return await self._settle(schedule, RunResult.SUBMITTED, task.id)

    async def remove(self, name: str, by: str) -> TaskSchedule:
        """Remove a schedule and return what it was; its tasks stay. Raises NoSuchSchedule."""
        async with self._one_at_a_time:
            schedule, known = await self.find(name), await self._all()
            await asyncio.to_thread(self.store.remove, schedule.id)
            del known[schedule.id]
            log.info("schedule_removed", schedule=name, by=by)
            return schedule

    async def look(self) -> None:
        """Submit what is due now, and put on record what was missed."""
        for name in list(await self._all()):
            async with self._one_at_a_time:
                schedule = (await self._all()).get(name)
                if schedule is None:
                    continue
                try:
                    await self._look_at(schedule)
                except OSError as error:
                    log.warning("schedule_not_written", schedule=name, error=str(error))

    async def _check(self, wanted: NewSchedule | TaskSchedule) -> str:
        """Return the title of its tasks. Raises SubmissionRefused, and what such a submission would be refused for."""
        await self.next_times(wanted.line, wanted.zone, 1)
        made, _ = await self.submissions.preview(wanted.work.submission(), ())
        return made.title

    async def _look_at(self, schedule: TaskSchedule) -> None:
        now = self.clock()
        if schedule.pending is None and not schedule.paused_by:
            if is_ahead(schedule.handled, now):
                schedule = await self._handle(schedule, self._put_back(schedule, now))
            following = recurrence_of(schedule).next_after
            found = await asyncio.to_thread(due_times, schedule.handled, now, following, schedule.missed)
            if found and schedule.id not in self._compared:
                schedule = await self._compare(schedule, min((*found.missed, found.due or now)), now)
                found = await asyncio.to_thread(due_times, schedule.handled, now, following, schedule.missed)
            schedule = await self._handle(schedule, with_times(schedule, found, now)) if found else schedule
        if schedule.pending is not None:
            await self._submit(schedule, schedule.pending)

    async def _compare(self, schedule: TaskSchedule, since: datetime, now: datetime) -> TaskSchedule:
        """Return the schedule as its tasks on disk show it: its own record may come from an older backup."""
        made = await asyncio.to_thread(newest_made, self.tasks, schedule, since, now)
        if made is not None and made.due > schedule.handled:
            log.warning("schedule_record_older", schedule=schedule.id, task=made.task.id, due=stamp(made.due))
            schedule = await self._save(with_made(schedule, made))
        self._compared.add(schedule.id)
        return schedule

    def _put_back(self, schedule: TaskSchedule, now: datetime) -> TaskSchedule:
        """Return a schedule whose mark lies ahead of the clock, with its times counting again from now on.

        A time may have been submitted while the clock was ahead, so its task is looked for on disk.
        """
        ahead = stamp(schedule.handled)
        log.warning("schedule_mark_ahead", schedule=schedule.id, handled=ahead, now=stamp(now))
        self._interrupted.add(schedule.id)
        reason = f"the clock had run ahead to {ahead}; times that came since are left out, later ones count again"
        return replace(
            schedule.with_run(ScheduledRun(due=now, at=now, result=RunResult.MISSED, reason=reason)), handled=now
        )

    async def _submit(self, schedule: TaskSchedule, pending: PendingRun) -> None:
        """Submit the task that is pending, unless that was done before a crash, or it must not be."""
        made = await self._made_before(schedule, pending)
        if made is not None:
            await self._settle(schedule, RunResult.SUBMITTED, made)
        elif refused := self._overlapping(schedule):
            await self._settle(schedule, RunResult.REFUSED, reason=refused)
        elif self.clock() - pending.since > TRY_FOR:
            await self._settle(schedule, RunResult.FAILED, reason=pending.reason or "the daemon was stopped meanwhile")
        else:
            await self._try_to_submit(schedule, pending)

    async def _try_to_submit(self, schedule: TaskSchedule, pending: PendingRun) -> None:
        try:
            task = await self._submitted(schedule, pending.due, f"schedule {schedule.id}")
        except MAY_PASS as error:
            log.warning("schedule_tries_again", schedule=schedule.id, due=stamp(pending.due), error=str(error))
            self._interrupted.add(schedule.id)
            await self._save(replace(schedule, pending=replace(pending, reason=str(error)[:500])))
        except OrchestratorError as error:
            await self._settle(schedule, RunResult.REFUSED, reason=str(error)[:500])
        else:
            await self._settle(schedule, RunResult.SUBMITTED, task.id)

    async def _submitted(self, schedule: TaskSchedule, due: datetime, by: str) -> Task:
        """Return the task that is submitted for a time; it begins when those before it have ended."""
        before = [task.id for task in self._live(schedule)]
        return await self.submissions.submit(schedule.work.submission(), before, by, made_by=schedule.key(due))

    async def _made_before(self, schedule: TaskSchedule, pending: PendingRun) -> str | None:
        """Return the task that was made for a time before a crash, or before an error that left that open."""
        key = schedule.key(pending.due)
        live = next((task.id for task in self.supervisor.tasks.values() if task.schedule.made_by == key), None)
        if live is not None or schedule.id not in self._interrupted:
            return live
        return await asyncio.to_thread(made_on_disk, self.tasks, key, pending.since)

    def _overlapping(self, schedule: TaskSchedule) -> str | None:
        """Return why no second task may begin, if the one before it has not ended and none is to wait for it."""
        live = next(iter(self._live(schedule)), None)
        if live is None or schedule.overlap is Overlap.QUEUE:
            return None
        return f"its last task has not ended: {live.id} is {live.status.value}"

    def _live(self, schedule: TaskSchedule) -> list[Task]:
        return [
            task
            for task in self.supervisor.tasks.values()
            if (task.schedule.made_by or "").startswith(f"{schedule.id}@") and not task.status.is_final
        ]

    async def _settle(
        self, schedule: TaskSchedule, result: RunResult, task: str | None = None, reason: str = ""
    ) -> TaskSchedule:
        """Put on record what became of the pending time."""
        pending = schedule.pending
        if pending is None:
            return schedule
        why = reason or (pending.reason if result is RunResult.SUBMITTED else "")
        run = ScheduledRun(due=pending.due, at=self.clock(), result=result, task=task, reason=why)
        tell = log.info if result is RunResult.SUBMITTED else log.warning
        tell("schedule_run", schedule=schedule.id, due=stamp(run.due), result=result.value, task=task, reason=why)
        self._interrupted.discard(schedule.id)
        return await self._handle(schedule, replace(schedule.with_run(run), pending=None))

    async def _handle(self, before: TaskSchedule, after: TaskSchedule) -> TaskSchedule:
        """Tell what was not submitted, and store it; a crash between the two tells nothing twice."""
        run = after.runs[-1] if after.runs else None
        if run is not None and run.result is not RunResult.SUBMITTED and after.runs != before.runs:
            key = f"schedule-{after.id}-{run.due:%Y%m%dT%H%M%S}-{run.result.value}"
            command = f"orchestrator schedule show {after.id}"
            await self.tell(key, MachineNoticeKind.SCHEDULE, not_submitted(after, run), command=command)
        return await self._save(after)

    async def _save(self, schedule: TaskSchedule) -> TaskSchedule:
        await asyncio.to_thread(self.store.save, schedule)
        (await self._all())[schedule.id] = schedule
        return schedule

    async def _all(self) -> dict[str, TaskSchedule]:
        if self._known is None:
            found = await asyncio.to_thread(self.store.load)
            if self._known is None:
                self._known = found
                self._interrupted = {one.id for one in found.values() if one.pending is not None}
        return self._known

    async def _pause(self) -> float:
        """Return the seconds until the next look."""
        schedules = await self.listed()
        times = [at for one in schedules if one.pending is None and (at := self.next_time(one)) is not None]
        return min([LONGEST_PAUSE, *(max(0.0, (at - self.clock()).total_seconds()) for at in times)])


def build_schedules(
    store: FolderStore, submissions: SubmissionService, supervisor: Supervisor, tell: Tell
) -> ScheduleService:
    """Return the use cases of the schedules of a data folder."""
    return ScheduleService(
        store=ScheduleStore(store.data_dir),
        submissions=submissions,
        supervisor=supervisor,
        tasks=store,
        clock=submissions.clock,
        tell=tell,
    )
