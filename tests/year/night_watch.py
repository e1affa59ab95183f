"""The simulation of the supervisor, with all of the daemon that tells people, over the same clock and crashes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.notices.rules import Rules
from orchestrator.core.task.task import Task
from orchestrator.daemon.inspection.attention import AttentionService
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.notifications.channel_watch import ChannelWatch
from orchestrator.daemon.notifications.courier import Courier, CourierPatience
from orchestrator.daemon.notifications.escalations import Escalations
from orchestrator.daemon.notifications.morning_report import MorningReport
from orchestrator.daemon.notifications.service import NotificationService
from orchestrator.daemon.reporting.histories import Histories
from orchestrator.daemon.reporting.night_report import NightReport, NightReportService
from orchestrator.daemon.services.limits import LimitService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.integrations.notices.build import build_channels
from orchestrator.integrations.notices.channel import Variables
from orchestrator.integrations.notices.entries import Entry
from orchestrator.integrations.notices.health import HealthBook
from orchestrator.integrations.notices.outbox import FOLDER, OUTBOX, NoticeOutbox
from orchestrator.server.report_writer import MorningReportWriter
from orchestrator.settings.settings import Settings
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.simulation.memory import MemoryStore
from orchestrator.supervisor.simulation.runner import DaemonConfig, Simulation, SimulationPlan
from orchestrator.supervisor.supervisor import Supervisor
from tests.year.families import edges
from tests.year.reasons import Reasons
from tests.year.settings import SECRET
from tests.year.stops import Stops
from tests.year.virtual_loop import Process, VirtualLoop

SWEEP = 240.0
"""Seconds between two looks at the clock; the daemon looks more often, which would take longer here."""


class VirtualNightReports(NightReportService):
    """The use case of the night report; no virtual time passes while threads compose one."""

    async def report(self, since: datetime | None, until: datetime | None) -> NightReport:
        """Return the report of a span."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        with loop.waiting_for_threads():
            return await super().report(since, until)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a process of the daemon finds: its settings, the time, and who is told of every notice that it stores."""

    settings: Settings
    rules: Rules
    clock: Callable[[], datetime]
    on_entry: Callable[[Entry], None]


class Notices:
    """What tells people in one process of the daemon."""

    def __init__(self, world: World, supervisor: Supervisor, inbox: Inbox, store: MemoryStore) -> None:
        settings, clock = world.settings, world.clock
        folder = settings.data_dir / FOLDER
        self.world, self.supervisor, self.process = world, supervisor, Process()
        self.announcer = Announcer(
            outbox=NoticeOutbox(folder / OUTBOX, clock),
            rules=lambda: world.rules,
            language=lambda: settings.notify.language,
            files=FolderTaskFiles(settings.data_dir / "tasks"),
            redact=str,
            clock=clock,
        )
        self.service = NotificationService(
            announcer=self.announcer, watch=ChannelWatch(book=HealthBook(folder), announcer=self.announcer)
        )
        attention, index = AttentionService(supervisor=supervisor), TaskIndex(store, supervisor)
        supervisor.listen(index.on_decision)
        self.reports = VirtualNightReports(
            histories=Histories(index=index, store=store),
            attention=attention,
            limits=LimitService(supervisor=supervisor, inbox=inbox),
            settings=lambda: settings,
            dead_channels=self.service.dead_channels,
            started_at=clock(),
            clock=clock,
            note_sources=(),
        )
        self._morning = MorningReport(
            announcer=self.announcer,
            reports=self.reports,
            writer=MorningReportWriter(str),
            settings=lambda: settings.notify,
            folder=folder,
        )
        self._escalations = Escalations(announcer=self.announcer, attention=attention)
        variables = Variables(values={SECRET: "a secret of the receivers"})
        channels = build_channels(settings, {}, lambda: variables, clock)
        self._courier = Courier(
            announcer=self.announcer,
            watch=self.service.watch,
            channels=lambda: channels,
            redact=str,
            pause=lambda: settings.notify.retry_pause,
            patience=CourierPatience(sweep=SWEEP),
        )

    def start(self) -> None:
        """Tell what is due from now on, as the loops of the daemon do."""
        for entry in self.announcer.outbox.entries():
            self.world.on_entry(entry)
        for work in (self._watch(), self._courier.run(), self._look()):
            self.process.start(work)

    def tell(self, task: Task, command: do.TellPerson) -> None:
        """Tell a notice of a task, as the daemon's executor does."""

        async def tell() -> None:
            await self.announcer.tell(task, command.notice)

        self.process.start(tell())

    async def _watch(self) -> None:
        with self.announcer.outbox.listening(self.world.on_entry):
            await asyncio.get_running_loop().create_future()

    async def _look(self) -> None:
        while True:
            await self._morning.look()
            await self._escalations.look()
            await asyncio.sleep(SWEEP)


class NightWatch(Simulation):
    """A simulation whose daemon tells people; `entries` is every notice that was stored, as it was last."""

    def __init__(
        self, config: DaemonConfig, plan: SimulationPlan, settings: Settings, crash_at: list[datetime]
    ) -> None:
        super().__init__(config, plan)
        self.entries: dict[str, Entry] = {}
        self.stops = Stops()
        self.dispatched: list[tuple[datetime, str, str]] = []
        self.told: Counter[str] = Counter()
        self.downtimes: list[tuple[datetime, datetime | None]] = [(plan.start, None)]
        self.reasons = Reasons(self._clock)
        self.notices: Notices | None = None
        self.faults: list[str] = []
        self._heard = 0
        self._settings, self._sooner = settings, asyncio.Event()
        self._rules = settings.notify.core_rules(has_command=False)
        for at in crash_at:
            self._clock.schedule_at(at, self._provoke_crash)
        self._every(3600.0, self._ask_why)
        for edge in edges(config.capacity.windows, plan.start, self._end):
            for seconds in (-90.0, 90.0):
                self._clock.schedule_at(edge + timedelta(seconds=seconds), self._ask_why)
        self._hourly: list[Callable[[NightWatch], None]] = []

    def hourly(self, call: Callable[["NightWatch"], None]) -> None:
        """Call with this each hour while a daemon runs."""
        self._hourly.append(call)

    async def _advance(self) -> bool:
        """Let the loop's time pass until the next call is due, and make that."""
        loop = asyncio.get_running_loop()
        while (due := self._clock.next_due()) is not None and due < self._end and due > self._clock.now:
            try:
                async with asyncio.timeout_at(loop.time() + (due - self._clock.now).total_seconds()):
                    await self._sooner.wait()
            except TimeoutError:
                break
            self._sooner.clear()
        if self.notices is not None:
            self.faults += map(repr, self.notices.process.faults)
        return not self.faults and await super()._advance()

    def tasks(self) -> list[Task]:
        """Return all tasks as they are stored."""
        return list(self._disk.tasks.values())

    def time(self) -> datetime:
        """Return the present time."""
        return self._clock.now

    def jump(self, now: datetime) -> None:
        """Follow the loop's time."""
        self._clock.now = max(now, self._clock.now)

    def _start_daemon(self) -> None:
        super()._start_daemon()
        assert self._daemon is not None
        begin, _ = self.downtimes.pop()
        self.downtimes.append((begin, self._clock.now))
        world = World(settings=self._settings, rules=self._rules, clock=self._clock.time, on_entry=self._on_entry)
        self.notices = Notices(world, self._daemon.supervisor, self._daemon.inbox, self._daemon.store)
        self.notices.start()
        self.reasons.on_start(self._daemon.supervisor)
        if self._disk.decisions and (last := self._disk.decisions[-1]).number > self._heard:
            self._hear(last.after, last.event)  # the crash came between its commit and its listeners

    def _crash_daemon(self) -> None:
        if self._daemon is not None and self.notices is not None:
            self.notices.process.kill(self._clock.now)
            self.notices = None
            self.downtimes.append((self._clock.now, None))
            self.reasons.on_crash()
        super()._crash_daemon()

    def _on_command(self, task: Task, command: do.Command) -> None:
        super()._on_command(task, command)
        if isinstance(command, do.TellPerson) and self.notices is not None:
            self.notices.tell(task, command)
        if isinstance(command, do.StartAgent | do.SendTurn | do.FreezeRun | do.ThawRun):
            self.dispatched.append((self._clock.now, task.id, type(command).__name__))

    def _on_decision(self, task: Task, event: events.Event) -> None:
        super()._on_decision(task, event)
        self._hear(task, event)

    def _hear(self, task: Task, event: events.Event) -> None:
        """Take note of the decision that was committed last."""
        self._heard = self._disk.decisions[-1].number
        self.reasons.on_decision(task, event)
        self.stops.note(task, event.at)
        if isinstance(event, events.PersonTold):
            self.told[f"{task.id}:{event.key}"] += 1

    def _on_entry(self, entry: Entry) -> None:
        self.entries[entry.key] = entry

    def _ask_why(self) -> None:
        if self._daemon is not None:
            self.reasons.ask(self._daemon.supervisor)
            for call in self._hourly:
                call(self)


def crashes_when_much_is_told(start: datetime, days: float, rng: Random, hours: tuple[datetime, ...]) -> list[datetime]:
    """Return some moments at which the daemon is killed: just after those hours of a day, on every other day."""
    return [
        at + timedelta(days=day, seconds=rng.uniform(0.0, 3.0))
        for day in range(round(days))
        for at in hours
        if rng.random() < 0.3 and at + timedelta(days=day) > start
    ]


def data_folder(root: Path, name: str) -> Path:
    """Return a new folder for a daemon's data."""
    folder = root / name
    folder.mkdir(parents=True)
    return folder
