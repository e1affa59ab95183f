"""The simulation itself: the supervisor runs in a simulated world, is killed, restarted and checked all the time.

Nothing here decides anything about a task. The clock makes the next scheduled call, the supervisor processes the events
that it caused, users act, and the monitor checks the invariants.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from random import Random
from time import monotonic

from orchestrator.core.decide.work.following import end_of
from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors, ResourceReading, Shortage, judge
from orchestrator.core.schedule.run_windows import next_edge
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy, TaskPolicy
from orchestrator.errors import OrchestratorError
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.simulation.account import SimulatedAccount, outages
from orchestrator.supervisor.simulation.clockwork.schedules import SimulatedSchedules
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.executor import SimulatedExecutor, SimulatedMachine
from orchestrator.supervisor.simulation.memory import FaultInjector, MemoryDisk, MemoryStore, SimulatedCrash
from orchestrator.supervisor.simulation.metrics import Metrics, SimulationReport, count_by_status
from orchestrator.supervisor.simulation.monitor import Monitor
from orchestrator.supervisor.simulation.people import REPOS, People, UserAction
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, random_duration
from orchestrator.supervisor.simulation.world import World
from orchestrator.supervisor.supervisor import Supervisor

START = datetime(2026, 1, 5, 18, 0, 0, tzinfo=UTC)
SWEEP = 5 * MINUTE
"""Seconds between two looks of the daemon at the clock, at the machine and for stalled agents."""
MAX_VIOLATIONS = 20
_PLENTY = 10**13
_NO_SHORTAGE = ResourceReading(free_disk=_PLENTY, available_memory=_PLENTY, load_per_core=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonConfig:
    """The user's settings and definitions that a simulation depends on; times in seconds."""

    capacity: Capacity
    floors: Floors
    policy: Callable[[Autonomy, float | None], TaskPolicy]
    pipelines: Mapping[str, Pipeline]
    model_of: Callable[[Task], str]
    stall_after: float
    orphan_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """What to simulate; the same plan and configuration give the same results.

    The daemon crashes `crashes` times at random, and at the step `crash_at`, counted from its first start. `schedules`
    are lines of crontab by the clocks of `zone`, at which tasks are submitted besides. Tasks change any of `repos`.
    """

    tasks: int = 500
    days: float = 7.0
    seed: int = 0
    crashes: int = 200
    crash_at: int | None = None
    probabilities: Probabilities = field(default_factory=Probabilities)
    schedules: tuple[str, ...] = ()
    zone: tzinfo = UTC
    start: datetime = START
    repos: tuple[str, ...] = REPOS


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon process, from its start to its crash."""

    store: MemoryStore
    executor: SimulatedExecutor
    inbox: Inbox
    supervisor: Supervisor
    running: asyncio.Task[None]


class Simulation:
    """One simulation; `run` it once."""

    def __init__(self, config: DaemonConfig, plan: SimulationPlan) -> None:
        self._config, self._plan = config, plan
        self._clock = VirtualClock(plan.start)
        self._end = plan.start + timedelta(days=plan.days)
        self._rng = _rng(plan, "week")
        probabilities = plan.probabilities
        bad_hours = outages(_rng(plan, "outages"), probabilities, plan.start, plan.days)
        account = SimulatedAccount(_rng(plan, "account"), config.capacity.places, bad_hours)
        self._world = World(self._clock, _rng(plan, "world"), probabilities, account, config.pipelines)
        self._people = People(self._clock, _rng(plan, "people"), probabilities, config.policy, plan.repos)
        pipelines = dict.fromkeys(self._submitted_to(), 1.0)
        self._schedules = SimulatedSchedules(
            plan.schedules,
            plan.zone,
            plan.start,
            lambda schedule, at: self._people.submit_recurring(schedule.name, at, pipelines),
        )
        self._faults = FaultInjector()
        self._disk = MemoryDisk()
        self._metrics = Metrics()
        self._monitor = Monitor(self._world, self._disk, self._clock, self._metrics)
        self._reading = _NO_SHORTAGE
        self._shortage: Shortage | None = None
        self._daemon: Daemon | None = None
        """None while the daemon is down."""
        self._started = monotonic()

    async def run(self, tell: Callable[[float], None] = lambda _: None) -> SimulationReport:
        """Simulate until the end, or until there are too many violations, and return the report.

        `tell` is called again and again with the days that are simulated so far.
        """
        self._started = monotonic()
        self._people.submit_tickets(self._plan.tasks, self._plan.days, dict.fromkeys(self._submitted_to(), 1.0))
        if self._plan.crash_at is not None:
            self._faults.crash_after(self._plan.crash_at)
        self._schedule_incidents()
        self._start_daemon()
        try:
            while len(self._monitor.violations) < MAX_VIOLATIONS and await self._advance():
                await self._process()
                tell(self.days())
            self._look_at_everything()
            await self._process()
            self._monitor.record_schedules(self._schedules.violations())
        finally:
            if self._daemon is not None:
                self._daemon.running.cancel()
                await asyncio.wait({self._daemon.running})
        return self.report(self._plan.days)

    def days(self) -> float:
        """Return how many days are simulated so far."""
        return (self._clock.now - self._plan.start).total_seconds() / DAY

    async def _advance(self) -> bool:
        """Make the next scheduled call; return False if none is due before the end."""
        return self._clock.run_next(self._end)

    def _submitted_to(self) -> list[str]:
        """Return the pipelines that people submit tickets to: those that only children have are left out."""
        pipelines = self._config.pipelines
        below = {name for one in pipelines.values() for stage in one.stages.values() for name in stage.child_pipelines}
        return [name for name in pipelines if name not in below]

    def _schedule_incidents(self) -> None:
        """Schedule crashes and shortages, and what the daemon does periodically."""
        rng, days, clock = self._rng, self._plan.days, self._clock
        for _ in range(self._plan.crashes):
            clock.schedule_after(rng.uniform(0, days * DAY), self._provoke_crash)
        for _ in range(round(self._plan.probabilities.shortages_per_day * days)):
            clock.schedule_after(rng.uniform(0, days * DAY), self._begin_shortage)
        self._every(SWEEP, self._sweep)
        self._every(HOUR, self._look_at_everything)
        self._ring_at_edge()
        self._look_at_schedules()

    def _ring_at_edge(self) -> None:
        """Wake the daemon whenever a run window opens or closes, as its alarm does."""
        if self._daemon is not None:
            self._daemon.inbox.wake()
            self._daemon.executor.has_news = True
        edge = next_edge(self._config.capacity.windows, self._clock.now)
        if edge is not None:
            self._clock.schedule_at(edge, self._ring_at_edge)

    def _look_at_schedules(self) -> None:
        """Submit what is due now, and look again when the next task is."""
        if not self._schedules.every:
            return
        if self._daemon is not None:
            self._schedules.look(self._clock.now, self._daemon.supervisor.tasks)
            self._daemon.executor.has_news = True
        at = self._schedules.next_time(self._clock.now)
        if at is not None:
            self._clock.schedule_at(at, self._look_at_schedules)

    def _every(self, seconds: float, action: Callable[[], None]) -> None:
        def run() -> None:
            action()
            self._clock.schedule_after(seconds, run)

        self._clock.schedule_after(seconds, run)

    def _start_daemon(self) -> None:
        """Start a daemon from what was committed."""
        inbox, store = Inbox(), MemoryStore(self._disk, self._faults)
        lookups = TaskLookups(
            clock=self._clock.time,
            pipeline_of=lambda task: self._config.pipelines[task.pipeline],
            model_of=self._config.model_of,
        )
        world = SimulatedMachine(world=self._world, faults=self._faults, stored=self._disk.tasks, lookups=lookups)
        executor = SimulatedExecutor(world, inbox, self._on_command)
        supervisor = Supervisor(store, executor, inbox, lookups, self._config.capacity)
        supervisor.shared.recall(store.account())
        for found in store.summaries():
            if found.ended:
                supervisor.remember_ended(found)
            else:
                supervisor.recover(store.load(found.id, keep_open=True).task)
        supervisor.listen(self._on_decision)
        running = asyncio.get_running_loop().create_task(supervisor.run())
        self._daemon = Daemon(store, executor, inbox, supervisor, running)
        self._shortage = None
        self._look_at_machine()
        if self._schedules.every:
            self._schedules.look(self._clock.now, supervisor.tasks)
        self._metrics.counts["starts"] += 1

    def _provoke_crash(self) -> None:
        """Crash the daemon now, or a few steps later in the middle of a decision."""
        if self._daemon is None:
            self._clock.schedule_after(HOUR, self._provoke_crash)
        elif self._rng.random() < 0.2:
            self._crash_daemon()
        else:
            self._faults.crash_after(self._rng.randrange(12))

    def _crash_daemon(self) -> None:
        """Crash the daemon; it is restarted after seconds, minutes or hours."""
        if self._daemon is None:
            return
        self._daemon.executor.crash()
        self._daemon.running.cancel()
        self._daemon.store.close()
        self._daemon = None
        self._monitor.skip_check()
        self._metrics.counts["crashes"] += 1
        downtime = random_duration(self._rng, self._rng.choice((5.0, 5.0, 5.0, 4 * MINUTE, HOUR)))
        starts = self._metrics.counts["starts"]

        def freeze() -> None:
            if self._daemon is None and self._metrics.counts["starts"] == starts:
                self._world.freeze_orphans()

        self._clock.schedule_after(self._config.orphan_after, freeze)
        self._clock.schedule_after(downtime, self._start_daemon)

    async def _process(self) -> None:
        """Let the supervisor process all events and users act, until nothing is left; then check the invariants."""
        while (daemon := self._daemon) is not None and (daemon.executor.has_news or self._people.actions):
            daemon.executor.has_news = False
            if await self._unless_crashed(daemon, daemon.inbox.settled()) and self._people.actions:
                await self._perform(daemon, self._people.actions.popleft())
        while self._people.actions:
            self._people.retry_later(self._people.actions.popleft())
        if self._daemon is None:
            self._monitor.skip_check()
        else:
            self._monitor.check(self._daemon.supervisor, self._daemon.executor)

    async def _perform(self, daemon: Daemon, action: UserAction) -> None:
        """Send a user's action to the daemon, which may refuse it, or crash while it handles it."""
        event = action.event(self._clock.now)
        try:
            if isinstance(event, events.TaskSubmitted):
                if action.task_id in daemon.supervisor.tasks or action.task_id in daemon.supervisor.ended:
                    return
                accepted = await self._unless_crashed(daemon, daemon.inbox.submit(event))
            else:
                accepted = await self._unless_crashed(daemon, daemon.inbox.request(action.task_id, event))
        except OrchestratorError:
            self._metrics.counts["refusals"] += 1
            return
        if not accepted:
            self._people.retry_later(action)
            return
        daemon.executor.has_news = True
        if isinstance(event, events.AskAnswered):
            self._monitor.on_answer(action.task_id, event.number)

    async def _unless_crashed(self, daemon: Daemon, work: "asyncio._CoroutineLike[object]") -> bool:
        """Await some work; return False if the daemon crashed before it was done. Raises what the work raises."""
        waiting: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        await asyncio.wait({waiting, daemon.running}, return_when=asyncio.FIRST_COMPLETED)
        if not daemon.running.done():
            waiting.result()
            return True
        error = daemon.running.exception()
        if not isinstance(error, SimulatedCrash):
            raise error or RuntimeError("the supervisor ended by itself")
        waiting.cancel()
        await asyncio.wait({waiting})
        self._crash_daemon()
        return False

    def _sweep(self) -> None:
        daemon = self._daemon
        if daemon is None:
            return
        daemon.supervisor.check_clock()
        daemon.executor.report_stalls(daemon.supervisor.tasks, self._config.stall_after)
        daemon.supervisor.flush_telemetry()
        self._look_at_machine()
        daemon.executor.has_news = True

    def _begin_shortage(self) -> None:
        """Make the machine run short of disk, memory or processor time for a while."""
        self._reading = self._rng.choice(
            (
                ResourceReading(free_disk=0, available_memory=_PLENTY, load_per_core=0.0),
                ResourceReading(free_disk=_PLENTY, available_memory=0, load_per_core=0.0),
                ResourceReading(free_disk=_PLENTY, available_memory=_PLENTY, load_per_core=99.0),
            )
        )
        self._clock.schedule_after(random_duration(self._rng, 20 * MINUTE), self._end_shortage)

    def _end_shortage(self) -> None:
        self._reading = _NO_SHORTAGE

    def _look_at_machine(self) -> None:
        """Tell the supervisor whether the machine is short of something."""
        self._shortage = judge(self._reading, self._config.floors, self._shortage)
        if self._daemon is not None:
            self._daemon.supervisor.control.update_pressure(self._shortage)
            self._daemon.executor.has_news = True

    def _look_at_everything(self) -> None:
        """Let users observe every active task, and check every active task."""
        if self._daemon is None:
            return
        for task in self._daemon.supervisor.tasks.values():
            self._people.observe(task)
        self._monitor.add_to_check(self._daemon.supervisor.tasks)
        self._look_at_machine()

    def _on_command(self, task: Task, command: do.Command) -> None:
        if self._daemon is not None:
            self._monitor.on_command(task, command, self._daemon.supervisor)

    def _on_decision(self, task: Task, event: events.Event) -> None:
        self._monitor.on_decision(task, event)
        self._people.observe(task)
        if task.parent is not None and task.is_over and self._daemon is not None:
            self._daemon.inbox.post(task.parent, end_of(task, task.id, self._clock.now))
            self._daemon.executor.has_news = True

    def report(self, days: float) -> SimulationReport:
        """Return what the simulation came to in so many days; it may have been cancelled before its end."""
        seconds = monotonic() - self._started
        tasks, counts = tuple(self._disk.tasks.values()), self._metrics.counts
        spent = [task.spending.total for task in tasks]
        return SimulationReport(
            seed=self._plan.seed,
            days=days,
            tasks=count_by_status(tasks),
            waits=self._metrics.waits(self._clock.now),
            steps=self._faults.steps,
            crashes=counts["crashes"],
            restarts=counts["starts"] - 1,
            decisions=counts["decisions"],
            turns=counts["turns"],
            answers=counts["answers"],
            refusals=counts["refusals"],
            limits_met=counts["limits"],
            scheduled=self._schedules.results(),
            usd=round(sum(one.usd for one in spent), 2),
            tokens=sum(one.tokens for one in spent),
            seconds=round(seconds, 2),
            hours_a_second=round((self._clock.now - self._plan.start).total_seconds() / HOUR / max(seconds, 0.001), 2),
            violations=tuple(self._monitor.violations),
        )


def _rng(plan: SimulationPlan, name: str) -> Random:
    return Random(f"{plan.seed} {name}")  # noqa: S311 - reproducible, and no secret depends on it
