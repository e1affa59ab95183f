"""The loop: inbox → decide → commit → dispatch; the only writer of tasks.

Everything that changes a task arrives as a message in the inbox: from adapters that executed a command, from timers,
from people through the API. The loop takes one message at a time. The core decides, the store commits, and only then
are commands executed and the sender answered. Nothing here knows how a command is executed.

Commands and answers start to run only when the loop waits again. So a short burst of events costs one journal line each
and one state.json in all, and that file is replaced before any sender sees its answer.

inbox.py says what happens when a decision cannot be committed because the disk is full.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import assert_never

import structlog

from orchestrator.core.decide import machine
from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.decide.obligations import alarms
from orchestrator.core.events.checkpoint_reason import reason_for
from orchestrator.core.events.commands import Command
from orchestrator.core.events.events import (
    AlarmRang,
    CancelRequested,
    DaemonStarted,
    DraftSubmitted,
    Event,
    ForeignEditFound,
    GateLooked,
    LoginMissed,
    PauseRequested,
    ResumeRequested,
    RetryRequested,
    TaskAdmitted,
    TaskSubmitted,
    TurnFinished,
)
from orchestrator.core.schedule import admission
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.trouble import TroubleKind
from orchestrator.core.schedule.why import Why, explain
from orchestrator.core.task.agent import Agent, PauseReason
from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import EVERYTHING, Allowance
from orchestrator.errors import NoSuchTask, OrchestratorError
from orchestrator.formats.table import DefinitionError
from orchestrator.storage.records import ForeignEdit, TaskSummary
from orchestrator.supervisor.admission_control import AdmissionControl
from orchestrator.supervisor.families import Families
from orchestrator.supervisor.inbox import (
    AgentsChecked,
    Inbox,
    LimitSeen,
    Message,
    PendingRequest,
    PostedEvent,
    Telemetry,
    Wakeup,
)
from orchestrator.supervisor.protocols import Executor, Store, TaskLookups
from orchestrator.supervisor.shared_state import SharedState
from orchestrator.supervisor.unreadable import UnreadableTasks

log = structlog.get_logger()

MOST_AT_ONCE = 5
"""Decisions, each of which waits for the disk, after which a burst of messages lets the rest of the daemon go on."""
MOST_TAKEN_AT_ONCE = 50
"""Messages after which it does so too, although few of them led to a decision."""


class Supervisor:
    """All live tasks, and the loop that changes them. `ended` is the status of every task that is not live."""

    def __init__(
        self,
        store: Store,
        executor: Executor,
        inbox: Inbox,
        lookups: TaskLookups,
        capacity: Capacity,
    ) -> None:
        self.tasks: dict[str, Task] = {}
        self.ended: dict[str, TaskStatus] = {}
        self.unreadable = UnreadableTasks(self.tasks, self.ended, store, executor)
        self.shared = SharedState()
        self.control = AdmissionControl(capacity, self.tasks, self.shared, inbox, lookups.clock)
        self.decisions = self.commands = 0
        self.families = Families(self.tasks, self.ended)
        self._store, self._executor, self._inbox, self._lookups = store, executor, inbox, lookups
        self._clock = lookups.clock
        self._with_telemetry: set[str] = set()
        self._seen = LiveTasks()
        self._listeners: list[Callable[[Task, Event], None]] = []
        self._timekeepers: list[Callable[[float], None]] = []

    async def run(self) -> None:
        """Process messages one at a time, forever.

        The sender of a request continues as soon as the loop awaits. So after an answer the loop does not await before
        every state.json is written. In a long burst that is done after every few decisions, and others get their turn.
        """
        has_answered, is_due, begun_at, taken = False, False, self.decisions, 0
        self.families.forget_heard()
        for task in self.families.orphans():
            not_needed = CancelRequested(at=self._clock(), by=task.parent or "", reason="its parent does not need it")
            self._inbox.post(task.id, not_needed)
        while True:
            message, commands, decisions = await self._inbox.take(), self.commands, self.decisions
            await self._inbox.retry_until_committed(partial(self._process, message))
            has_answered, taken = has_answered or isinstance(message, PendingRequest), taken + 1
            is_due = is_due or not isinstance(message, Telemetry)
            if is_due and (self.decisions != decisions or not self._inbox.is_start_under_way(message)):
                if self.commands > commands and not has_answered:
                    await asyncio.sleep(0)  # lets the commands of the decision start before anything else is done
                await self._inbox.retry_until_committed(self._schedule)
                is_due = False
            is_long = self.decisions - begun_at >= MOST_AT_ONCE or taken >= MOST_TAKEN_AT_ONCE
            if self._inbox.is_empty or is_long:
                self._record_foreign(self._store.settle())
                self._store_account()
                has_answered = False
            self._inbox.done()
            if is_long:
                begun_at, taken = self.decisions, 0
                await asyncio.sleep(0)

    def listen(self, listener: Callable[[Task, Event], None]) -> None:
        """Call `listener` after every committed decision, with the task as it is then."""
        self._listeners.append(listener)

    def time_commits(self, timekeeper: Callable[[float], None]) -> None:
        """Call `timekeeper` with the seconds that each decision took to reach the disk."""
        self._timekeepers.append(timekeeper)

    def remember_ended(self, task: TaskSummary) -> None:
        """Take note at start of a task that has ended."""
        self.ended[task.id] = task.status
        self.shared.remember(task.spent)
        self.families.remember(task)

    def recover(self, task: Task, edits: Sequence[ForeignEdit] = ()) -> None:
        """Take up a task that was loaded at start; every outstanding command is issued again.

        `edits` were set aside then. A pause for lack of resources is lifted until the shortage is measured again.
        """
        self.unreadable.drop(task.id)
        self.tasks[task.id] = task
        now = self._clock()
        self._record_foreign(edits)
        self._inbox.post(task.id, DaemonStarted(at=now, run_alive=self._executor.run_alive(task)))
        if task.agent.blocked_by is PauseReason.PRESSURE:
            self._inbox.post(task.id, ResumeRequested(at=now, blocked_by=PauseReason.PRESSURE))

    def forget(self, task_id: str) -> None:
        """Drop a deleted task from memory."""
        self.unreadable.drop(task_id)
        self.ended.pop(task_id, None)
        self.tasks.pop(task_id, None)
        self._store.release(task_id)

    def why(self, task: Task) -> Why:
        """Return why a task is where it is, and what happens next."""
        return self.unreadable.why(task) or explain(task, self.snapshot())

    def snapshot(self) -> SchedulerSnapshot:
        """Return everything that scheduling depends on, as it is now."""
        now, tasks = self._clock(), tuple(self.tasks.values())
        if tasks != self._seen:
            self._seen = LiveTasks(tasks)
        capacity, paused_by = self.control.capacity, self.shared.paused_by
        busy = capacity.busy or self.shared.unchecked
        if busy != capacity.busy or paused_by != capacity.paused_by:
            capacity = replace(capacity, busy=busy, paused_by=paused_by)
        trouble = self.shared.trouble(now)
        if trouble and trouble.is_probed:
            capacity = replace(capacity, places=1)
        return SchedulerSnapshot(
            tasks=self._seen,
            ended=self.ended,
            capacity=capacity,
            now=now,
            windows=self.shared.windows,
            ended_today=self.shared.spent_on(now.date().isoformat()),
            unheard=self.families.unheard,
            trouble=trouble,
            model_of=self._lookups.model_of,
        )

    def forget_limits(self, window: str | None, by: str) -> None:
        """Forget that one usage window, or any, is used up; tasks that reached this limit try again."""
        self.shared.forget(window, by)
        for task_id in admission.tasks_at_limit(self.snapshot(), window):
            self._inbox.post(task_id, ResumeRequested(at=self._clock(), blocked_by=PauseReason.RATE_LIMIT, by=by))
        self._inbox.wake()

    def _store_account(self) -> None:
        """Store the state of the account if it changed, once for a burst of messages."""
        if self.shared.unwritten:
            self.shared.unwritten = not self._store.keep_account(self.shared.kept)

    def _schedule(self) -> None:
        """Pause, resume and admit tasks as the account, the day and the free slots allow."""
        snapshot, decisions = self.snapshot(), self.decisions
        self._enforce_limits(snapshot)
        for task_id in admission.tasks_to_admit(snapshot if self.decisions == decisions else self.snapshot()):
            self._apply(task_id, TaskAdmitted(at=self._clock()))
            self._inbox.wake()  # it may need less than was set aside for it, and so leave a slot to the next one

    def _enforce_limits(self, snapshot: SchedulerSnapshot) -> None:
        """Pause tasks whose turn the account or the day forbids; interrupt turns that use up the day's budget."""
        for task_id, turn, reason in admission.turns_to_interrupt(snapshot):
            interrupted = PauseRequested(at=snapshot.now, blocked_by=PauseReason.BUDGET, reason=reason, turn=turn)
            self._apply(task_id, interrupted)
        for task_id, by, reason in admission.tasks_to_pause(snapshot):
            self._apply(task_id, PauseRequested(at=snapshot.now, blocked_by=by, reason=reason))
        for task_id, by in admission.tasks_to_resume(snapshot):
            self._apply(task_id, ResumeRequested(at=snapshot.now, blocked_by=by))
        if self.shared.unannounced and (waiting := admission.task_to_notify(snapshot)):
            told, self.shared.unannounced = self.shared.unannounced, None
            is_broken = told.kind is TroubleKind.INSTALLATION
            self._apply(waiting, LoginMissed(at=snapshot.now, reason=told.reason, blames_installation=is_broken))

    def flush_telemetry(self) -> None:
        """Store telemetry, which no decision covers; what cannot be written now is written later."""
        for task_id in list(self._with_telemetry):
            task = self.tasks.get(task_id)
            try:
                if task is not None:
                    self._store.note_telemetry(task)
                self._with_telemetry.discard(task_id)
            except OSError as error:
                log.warning("telemetry_not_written", task=task_id, error=str(error))

    def check_for_foreign_edit(self, task_id: str) -> None:
        """Restore a state.json that another program wrote, and record that."""
        if task_id in self.tasks:
            self._record_foreign(self._store.foreign_edits(self.tasks[task_id]))

    def _record_foreign(self, found: Sequence[ForeignEdit]) -> None:
        for edit in found:
            log.warning("foreign_edit_found", task=edit.task_id, kept_as=edit.kept_as, changed=edit.changed)
            event = ForeignEditFound(at=self._clock(), kept_as=edit.kept_as, changed=edit.changed)
            self._inbox.post(edit.task_id, event)

    def check_clock(self) -> None:
        """Raise every alarm that is due: clocks jump, machines sleep, and timers may have been lost."""
        now = self._clock()
        for task in self.tasks.values():
            if any(at <= now for at in alarms(task)):
                self._inbox.post(task.id, AlarmRang(at=now))

    def _process(self, message: Message) -> None:
        match message:
            case PostedEvent(task_id, event):
                self._apply(task_id, event)
            case Telemetry(task_id, attempt, change):
                self._record_telemetry(task_id, attempt, change)
            case LimitSeen(limit):
                self.shared.record_limit(limit, self._clock())
            case AgentsChecked(trouble):
                self.shared.set_usable(trouble)
            case PendingRequest():
                message.resolve(partial(self._decide_request, message))
            case Wakeup():
                pass
            case _:
                assert_never(message)

    def _decide_request(self, request: PendingRequest) -> Task:
        """Return the task after the event. Raises NoSuchTask, InvalidTransition and OSError."""
        event, task_id = request.event, request.task_id
        if isinstance(event, TaskSubmitted | DraftSubmitted):
            event = replace(event, held=self.shared.paused_by is not None)
        if isinstance(event, TaskSubmitted):
            return self._begin(event)
        if request.ended is None:
            self.unreadable.refuse(task_id)
            if task_id not in self.tasks:
                raise NoSuchTask(f"no task {task_id} is live")
            return self._decide(self.tasks[task_id], event)
        try:
            return self._decide(self.tasks.setdefault(task_id, request.ended), event)
        finally:
            self.tasks.pop(task_id, None)
            self._store.release(task_id)

    def _begin(self, event: TaskSubmitted) -> Task:
        """Take in a new task; a child only while its parent waits for it. Raises NoSuchTask and OSError."""
        parent = event.task.parent
        if parent is not None and not (parent in self.tasks and self.tasks[parent].waits_for_children):
            raise NoSuchTask(f"{parent} does not wait for children")
        task, commands = machine.begin(self._lookups.pipeline_of(event.task), event)
        self._commit(None, task, event)
        self._dispatch(task, event, commands)
        return task

    def _commit(self, before: Task | None, after: Task, event: Event) -> None:
        began = perf_counter()
        self._store.commit(before, after, event)
        seconds = perf_counter() - began
        for timekeeper in self._timekeepers:
            timekeeper(seconds)

    def _apply(self, task_id: str, event: Event) -> None:
        """Decide about a fact. A bug that it triggers takes this task out of service until the next start, no other."""
        task = self.tasks.get(task_id)
        if task is None:
            return
        try:
            self._decide(task, event)
        except (OSError, OrchestratorError):
            raise
        except Exception as error:
            log.exception("task_put_aside", task=task_id, event_name=type(event).__name__)
            self.unreadable.hold(task, f"there is a bug in the daemon, which its log describes: {error!r}")

    def _decide(self, before: Task, event: Event) -> Task:
        event = self.shared.judged(before, event)
        try:
            pipeline = self._lookups.pipeline_of(before)
        except DefinitionError as error:
            self.unreadable.hold(before, f"its pipeline cannot be read: {error}")
            raise
        after, commands = machine.decide(pipeline, before, event, self._allowance(before, event))
        if after is before:
            return before
        try:
            self._commit(before, after, event)
        except OrchestratorError as error:
            self.unreadable.hold(before, f"a decision cannot be written to its files: {error}")
            raise
        self.tasks[after.id] = after
        self._dispatch(after, event, commands)
        for judged in self.shared.on_decision(before, event):
            if judged in self.tasks and self.tasks[judged].status is TaskStatus.BLOCKED:
                self._inbox.post(judged, RetryRequested(at=event.at, blames_installation=True))
        if (reason := reason_for(before, after, event)) is not None:
            self._executor.checkpoint(after, reason)
        if isinstance(event, ResumeRequested) and before.waits_for_word:
            self._resume_after_limit(event)
        return after

    def _allowance(self, task: Task, event: Event) -> Allowance:
        """Return what the account and the day allow a task.

        Only at the end of a turn and of a look at its results may another follow within the same decision. Before
        every other turn the task is between two decisions, and `_enforce_limits` has looked at it.
        """
        may_continue = isinstance(event, TurnFinished | GateLooked)
        return admission.allowance_for(task, self.snapshot()) if may_continue else EVERYTHING

    def _resume_after_limit(self, event: ResumeRequested) -> None:
        """Resume every task at a usage limit: a person who resumes one says that the account can be used again."""
        for task in filter(lambda one: one.waits_for_word, self.tasks.values()):
            self._inbox.post(task.id, replace(event, blocked_by=PauseReason.RATE_LIMIT))

    def _dispatch(self, task: Task, event: Event, commands: tuple[Command, ...]) -> None:
        self.decisions += 1
        self.tasks[task.id] = task
        log.info(
            "task_decided", task=task.id, event_name=type(event).__name__, stage=task.stage, status=task.status.value
        )
        for command in commands:
            self.commands += 1
            self._executor.execute(task, command)
        is_done = task.is_over and not task.notices and not task.has_open_children
        self.families.on_decision(task, event)
        if is_done:
            if task.id not in self.ended:
                self.shared.remember(task.spending.by_day)
            self.ended[task.id] = task.status
            del self.tasks[task.id]
        for listener in self._listeners:
            listener(task, event)
        if is_done:
            self._store.release(task.id)

    def _record_telemetry(self, task_id: str, attempt: int, change: Callable[[Agent], Agent]) -> None:
        task = self.tasks.get(task_id)
        if task is not None and task.agent.attempt == attempt:
            before = task.agent.turn
            self.tasks[task_id] = task = replace(task, agent=change(task.agent))
            self._with_telemetry.add(task_id)
            if task.next_action is NextAction.TURN and not task.is_paused and cap_reached(task):
                self._inbox.post(task_id, AlarmRang(at=self._clock()))
            elif task.agent.turn != before and self._is_bounded(task):
                self._inbox.wake()

    def _is_bounded(self, task: Task) -> bool:
        """Return whether a budget that others share bounds what the task spends."""
        return self.control.capacity.day != NO_CAPS or self.families.shares_budget(task)
