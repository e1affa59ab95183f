"""The loop: inbox → decide → commit → dispatch; the only writer of tasks.

Everything that wants to change a task puts an event into the inbox: adapters that carried something out, alarms, people
through the API. One event is taken at a time. It is decided in the core, committed by the store, and only then do
commands go out and does whoever asked get an answer. Nothing here knows how a command is carried out.

Commands and answers only begin to run when the loop waits again. So a burst of events costs one journal line each and
one state.json in all, replaced before anybody is told.

What happens when a decision cannot be committed (the disk is full) is the inbox's to know.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import structlog

from orchestrator.core.decide import machine
from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.decide.obligations import alarms
from orchestrator.core.events.agent_events import Limit
from orchestrator.core.events.checkpoint_reason import reason_for
from orchestrator.core.events.commands import Command
from orchestrator.core.events.events import (
    AlarmRang,
    DaemonStarted,
    Event,
    ForeignEditFound,
    LoginMissed,
    PauseRequested,
    ResumeRequested,
    TaskAdmitted,
    TaskSubmitted,
    TurnFinished,
)
from orchestrator.core.schedule import admission
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.pressure import Shortage, ShortOf, tasks_to_freeze, tasks_to_release
from orchestrator.core.schedule.why import Why, explain
from orchestrator.core.task.agent import Agent, PauseReason
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import EVERYTHING, Allowance
from orchestrator.errors import NoSuchTask, OrchestratorError
from orchestrator.storage.records import ForeignEdit
from orchestrator.supervisor.account import Account
from orchestrator.supervisor.inbox import Inbox, retry_until_committed
from orchestrator.supervisor.protocols import CommandExecutor, Store, TaskLookups

log = structlog.get_logger()


class Supervisor:
    """All tasks that are at work, and the loop that changes them."""

    def __init__(
        self,
        store: Store,
        hands: CommandExecutor,
        views: TaskLookups,
        room: Capacity,
        clock: Callable[[], datetime],
    ) -> None:
        self.tasks: dict[str, Task] = {}
        self.ended: dict[str, TaskStatus] = {}
        self.room = room
        self.account = Account()
        self.decisions = 0
        self._store, self._hands, self._views, self._clock = store, hands, views, clock
        self._inbox = Inbox()
        self._noted: set[str] = set()
        self._short_of: ShortOf | None = None
        self._listeners: list[Callable[[Task, Event], None]] = []

    async def run(self) -> None:
        """Take events one at a time, for ever."""
        while True:
            if await self._inbox.take_next():
                await retry_until_committed(self._hold_back)
                await retry_until_committed(self.admit)
            if self._inbox.is_empty:
                self._note_foreign(self._store.settle())
                self._keep_account()
            self._inbox.done()

    async def settled(self) -> None:
        """Wait until everything told so far was taken in."""
        await self._inbox.settled()

    def listen(self, listener: Callable[[Task, Event], None]) -> None:
        """Be told of every decision, after it was committed."""
        self._listeners.append(listener)

    def recover(self, task: Task, foreign: str | None = None, changed: tuple[str, ...] = ()) -> None:
        """Take up a task that was found on disk at start; everything it owes is asked for again.

        What held it for want of room is over until it is felt again.
        """
        self.tasks[task.id] = task
        now = self._clock()
        if foreign:
            self.post(task.id, ForeignEditFound(at=now, kept_as=foreign, changed=changed))
        self.post(task.id, DaemonStarted(at=now, run_alive=self._hands.run_alive(task)))
        if task.agent.blocked_by is PauseReason.PRESSURE:
            self.post(task.id, ResumeRequested(at=now, blocked_by=PauseReason.PRESSURE))

    def post(self, task_id: str, event: Event) -> None:
        """Tell of a fact. One about a task that is not at work any more is late news."""
        self._inbox.put(lambda: self._hear(task_id, event))

    def note(self, task_id: str, attempt: int, change: Callable[[Agent], Agent]) -> None:
        """Take in telemetry of a task's present attempt, in order with the events; it is no decision."""
        self._inbox.put(lambda: self._note(task_id, attempt, change), is_telemetry=True)

    async def submit(self, event: TaskSubmitted) -> Task:
        """Accept a new task. Raises NotCommitted."""
        return await self._inbox.ask(lambda: self._begin(event))

    async def request(self, task_id: str, event: Event) -> Task:
        """Ask something of a task. Raises NoSuchTask, InvalidTransition, NotCommitted; then nothing has changed."""

        def take() -> Task:
            if task_id not in self.tasks:
                raise NoSuchTask(f"no task {task_id} is at work")
            return self._decide(self.tasks[task_id], event)

        return await self._inbox.ask(take)

    async def request_of_ended(self, task: Task, event: Event) -> Task:
        """Ask something of a task that has ended and was opened for it. Raises as `request` does."""

        def take() -> Task:
            try:
                return self._decide(self.tasks.setdefault(task.id, task), event)
            finally:
                self.tasks.pop(task.id, None)
                self._store.release(task.id)

        return await self._inbox.ask(take)

    def forget(self, task_id: str) -> None:
        """Know nothing any more of a task that is being deleted."""
        self.ended.pop(task_id, None)
        self.tasks.pop(task_id, None)
        self._store.release(task_id)

    def why(self, task: Task) -> Why:
        """What keeps a task where it is."""
        return explain(task, self.scene())

    def scene(self) -> SchedulerSnapshot:
        """All there is to see now."""
        now = self._clock()
        return SchedulerSnapshot(
            tasks=tuple(self.tasks.values()),
            ended=self.ended,
            room=replace(self.room, busy=self.room.busy or self.account.unlooked, paused_by=self.account.paused_by),
            now=now,
            windows=self.account.windows,
            ended_today=self.account.spent_on(f"{now:%Y-%m-%d}"),
            trouble=self.account.trouble,
            model_of=self._views.model_of,
        )

    def update_pressure(self, shortage: Shortage | None) -> None:
        """Hold what has to be held while the machine is short of room, and let it go on when it is not any more."""
        reason = shortage.reason if shortage else None
        holds_all = shortage is not None and shortage.kind is not ShortOf.LOAD
        if (shortage and shortage.kind) != self._short_of:
            log.warning("pressure_changed", reason=reason)
        self._short_of = shortage.kind if shortage else None
        self.room = replace(self.room, pressure=reason if holds_all else None, busy=None if holds_all else reason)
        now = self._clock()
        for task_id in tasks_to_freeze(shortage, self.tasks.values()):
            held = PauseRequested(at=now, blocked_by=PauseReason.PRESSURE, reason=reason or "")
            self.post(task_id, held)
        for task_id in tasks_to_release(shortage, self.tasks.values()):
            self.post(task_id, ResumeRequested(at=now, blocked_by=PauseReason.PRESSURE))
        self._inbox.wake()

    def record_limit(self, limit: Limit) -> None:
        """Take in news of a usage window of the account; it is kept, for other tasks and after a restart."""
        self._inbox.put(lambda: self.account.hear(limit, self._clock()))

    def set_login_status(self, missing: str | None) -> None:
        """Begin no turn while nobody is logged in, for the reason given; None when somebody is."""
        self.account.set_login_status(missing)
        self._inbox.wake()

    def forget_limits(self, window: str | None, by: str) -> None:
        """Believe no more that a usage window, or any, is used up; those that met it have another try."""
        self.account.forget(window, by)
        for task_id in admission.tasks_at_limit(self.scene(), window):
            self.post(task_id, ResumeRequested(at=self._clock(), blocked_by=PauseReason.RATE_LIMIT, by=by))
        self._inbox.wake()

    def _keep_account(self) -> None:
        """Write down what was told of the account: once for a burst of news, however long an agent makes it."""
        if self.account.unwritten:
            self.account.unwritten = not self._store.keep_account(self.account.kept)

    def _hold_back(self) -> None:
        """Let nobody begin a turn that the account or the day forbids; a turn that uses up the day is cut short."""
        scene = self.scene()
        for task_id, turn, reason in admission.turns_to_interrupt(scene):
            told = PauseRequested(at=scene.now, blocked_by=PauseReason.BUDGET, reason=reason, turn=turn)
            self._hear(task_id, told)
        for task_id, by, reason in admission.tasks_to_pause(scene):
            self._hear(task_id, PauseRequested(at=scene.now, blocked_by=by, reason=reason))
        for task_id, by in admission.tasks_to_resume(scene):
            self._hear(task_id, ResumeRequested(at=scene.now, blocked_by=by))
        if self.account.untold and (waiting := admission.task_to_notify(scene)):
            self._hear(waiting, LoginMissed(at=scene.now, reason=self.account.untold))
            self.account.untold = None

    def set_room(self, room: Capacity) -> None:
        """Go by other numbers from now on; what is at work beyond them goes on."""
        self.room = replace(room, pressure=self.room.pressure, busy=self.room.busy, draining=self.room.draining)
        self._inbox.wake()

    def drain(self) -> None:
        """Admit nothing any more."""
        self.room = replace(self.room, draining=True)

    def pause_all(self, by: str) -> None:
        """Have whatever is handed in stand still too, also after a restart, until tasks are taken again."""
        self.account.pause(by)
        self._inbox.wake()

    def stop_agents(self) -> None:
        """Admit nothing any more, and end every agent, its session kept; the next start goes on with all of them."""
        self.drain()
        now = self._clock()
        for task_id in self.tasks:
            self.post(task_id, PauseRequested(at=now, blocked_by=PauseReason.PRESSURE, reason="drained", park=True))

    def resume_admission(self) -> None:
        """Admit tasks again after a drain, a pause of all or a refusal of the account; what the drain held goes on."""
        self.room = replace(self.room, draining=False)
        self.account.go_on()
        for task_id in () if self.room.pressure else tasks_to_release(None, self.tasks.values()):
            self.post(task_id, ResumeRequested(at=self._clock(), blocked_by=PauseReason.PRESSURE))
        self._inbox.wake()

    def flush_telemetry(self) -> None:
        """Write what is no decision to disk; what cannot be written now is written later."""
        for task_id in list(self._noted):
            task = self.tasks.get(task_id)
            try:
                if task is not None:
                    self._store.note_telemetry(task)
                self._noted.discard(task_id)
            except OSError as error:
                log.warning("telemetry_not_written", task=task_id, error=str(error))

    def look_for_foreign_edit(self, task_id: str) -> None:
        """Restore a state.json that somebody else wrote, and put that on record."""
        if task_id in self.tasks:
            self._note_foreign(self._store.foreign_edits(self.tasks[task_id]))

    def _note_foreign(self, found: Sequence[ForeignEdit]) -> None:
        for edit in found:
            log.warning("foreign_edit_found", task=edit.task_id, kept_as=edit.kept_as, changed=edit.changed)
            told = ForeignEditFound(at=self._clock(), kept_as=edit.kept_as, changed=edit.changed)
            self.post(edit.task_id, told)

    def look_at_clock(self) -> None:
        """Ring for every task whose time has come: clocks jump, machines sleep, and alarms may have been lost."""
        now = self._clock()
        for task in self.tasks.values():
            if any(at <= now for at in alarms(task)):
                self.post(task.id, AlarmRang(at=now))

    def admit(self) -> None:
        """Let start or go on whoever may now."""
        for task_id in admission.tasks_to_admit(self.scene()):
            self._hear(task_id, TaskAdmitted(at=self._clock()))

    def _begin(self, event: TaskSubmitted) -> Task:
        event = replace(event, held=self.account.paused_by is not None)
        task, commands = machine.begin(self._views.pipeline_of(event.task), event)
        self._store.commit(None, task, event)
        self._dispatch(task, event, commands)
        return task

    def _hear(self, task_id: str, event: Event) -> None:
        """Take a fact in. A bug that one task meets puts that task aside until the next start, and no other."""
        task = self.tasks.get(task_id)
        if task is None:
            return
        try:
            self._decide(task, event)
        except (OSError, OrchestratorError):
            raise
        except Exception as error:
            log.exception("task_put_aside", task=task_id, event_name=type(event).__name__)
            self._lose(task, error)

    def _decide(self, before: Task, event: Event) -> Task:
        after, commands = machine.decide(self._views.pipeline_of(before), before, event, self._allowance(before, event))
        if after is before:
            return before
        try:
            self._store.commit(before, after, event)
        except OrchestratorError as error:
            self._lose(before, error)
            raise
        self.tasks[after.id] = after
        self._dispatch(after, event, commands)
        reason = reason_for(before, after, event)
        if reason is not None:
            self._hands.checkpoint(after, reason)
        if isinstance(event, ResumeRequested) and before.waits_for_word:
            self._go_on_after_limit(event)
        return after

    def _allowance(self, task: Task, event: Event) -> Allowance:
        """Return what the account and the day allow a task.

        Only at the end of a turn may another follow within the same decision. Before every other turn the task is
        between two decisions, and `_hold_back` has looked at it.
        """
        return admission.allowance_for(task, self.scene()) if isinstance(event, TurnFinished) else EVERYTHING

    def _go_on_after_limit(self, word: ResumeRequested) -> None:
        """A person's word for one task that met a usage limit is that for the account: let the others go on too."""
        for task in filter(lambda one: one.waits_for_word, self.tasks.values()):
            self.post(task.id, replace(word, blocked_by=PauseReason.RATE_LIMIT))

    def _dispatch(self, task: Task, event: Event, commands: tuple[Command, ...]) -> None:
        self.decisions += 1
        self.account.decided(event)
        self.tasks[task.id] = task
        log.info(
            "task_decided", task=task.id, event_name=type(event).__name__, stage=task.stage, status=task.status.value
        )
        for command in commands:
            self._hands.execute(task, command)
        if task.status.is_final and task.run is None and not task.notices:
            if task.id not in self.ended:
                self.account.remember(task.spending.by_day)
            self.ended[task.id] = task.status
            del self.tasks[task.id]
            self._store.release(task.id)
        for listener in self._listeners:
            listener(task, event)

    def _note(self, task_id: str, attempt: int, change: Callable[[Agent], Agent]) -> None:
        task = self.tasks.get(task_id)
        if task is not None and task.agent.attempt == attempt:
            self.tasks[task_id] = task = replace(task, agent=change(task.agent))
            self._noted.add(task_id)
            if task.next_action is NextAction.TURN and not task.is_paused and cap_reached(task):
                self.post(task_id, AlarmRang(at=self._clock()))

    def _lose(self, task: Task, error: Exception) -> None:
        """Let a task go for which nothing can be decided; nothing of it may run on unseen."""
        log.error("task_lost", task=task.id, error=str(error))
        self.tasks.pop(task.id, None)
        self.ended[task.id] = TaskStatus.FAILED
        self._store.release(task.id)
        self._hands.abandon(task)
