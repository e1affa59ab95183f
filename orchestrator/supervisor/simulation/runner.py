"""A simulated week: the supervisor lives in it, dies and comes back, and after every decision the laws are asked.

Nothing here decides anything of a task. The next thing that is due happens, the supervisor takes in what it was told of
that, people say what they have to say, and the laws look at what came of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.pressure import Floors, ResourceReading, Shortage, judge
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy, TaskPolicy
from orchestrator.errors import OrchestratorError
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.simulation import invariants
from orchestrator.supervisor.simulation.account import SimulatedAccount, outages
from orchestrator.supervisor.simulation.agents import AgentTree
from orchestrator.supervisor.simulation.executor import SimulatedExecutor
from orchestrator.supervisor.simulation.memory import MemoryDisk, MemoryStore, Plug, PowerCut
from orchestrator.supervisor.simulation.metrics import Metrics, SimulationReport, Violation, by_end
from orchestrator.supervisor.simulation.people import People, UserAction
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, span
from orchestrator.supervisor.simulation.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.world import World
from orchestrator.supervisor.supervisor import Supervisor

START = datetime(2026, 1, 5, 18, 0, 0, tzinfo=UTC)
SWEEP = 5 * MINUTE
"""How often the daemon looks at the clock, at the machine and for agents that are silent; every alarm rings in time."""
MOST_VIOLATIONS = 20
KEPT = 40
"""Decisions of a task that are told when a law is broken."""
_PLENTY = 10**13


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDaemon:
    """What a user's settings and definitions say, as far as it matters to a week; times in seconds."""

    room: Capacity
    floors: Floors
    terms: Callable[[Autonomy, float | None], TaskPolicy]
    pipelines: Mapping[str, Pipeline]
    model_of: Callable[[Task], str]
    stall_after: float
    orphan_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """What to simulate; the same order gives the same week."""

    tasks: int = 500
    days: float = 7.0
    seed: int = 0
    crashes: int = 200
    odds: Probabilities = field(default_factory=Probabilities)


class Simulation:
    """One week in one house."""

    def __init__(self, house: SimulatedDaemon, order: SimulationPlan) -> None:
        self._house, self._order = house, order
        self._timeline = VirtualClock(START)
        self._end = START + timedelta(days=order.days)
        self._dice = _dice(order, "week")
        odds, places = order.odds, house.room.places
        account = SimulatedAccount(
            _dice(order, "account"), places, outages(_dice(order, "outages"), odds, START, order.days)
        )
        self._world = World(self._timeline, _dice(order, "world"), odds, account, house.pipelines)
        self._people = People(self._timeline, _dice(order, "people"), odds, house.terms)
        self._plug = Plug()
        self._disk = MemoryDisk()
        self._store: MemoryStore
        self._tally = Metrics()
        self._violations: list[Violation] = []
        self._histories: dict[str, deque[tuple[datetime, events.Event, Task]]] = {}
        self._last: dict[str, Task] = {}
        self._decided: set[str] = set()
        self._begun: set[str] = set()
        self._answered: set[tuple[str, int]] = set()
        self._reading = ResourceReading(free_disk=_PLENTY, available_memory=_PLENTY, load_per_core=0.0)
        self._shortage: Shortage | None = None
        self._hands: SimulatedExecutor | None = None
        self._supervisor: Supervisor
        self._running: asyncio.Task[None]

    async def live(self) -> SimulationReport:
        """Live it through, or until too many laws were broken; and tell what came of it."""
        began = monotonic()
        self._people.hand_in(self._order.tasks, self._order.days, dict.fromkeys(self._house.pipelines, 1.0))
        self._arrange()
        self._rise()
        try:
            while len(self._violations) < MOST_VIOLATIONS and self._timeline.step(self._end):
                await self._take_in()
            self._look_at_everything()
            await self._take_in()
        finally:
            self._running.cancel()
            await asyncio.wait({self._running})
        return self._report(monotonic() - began)

    def _arrange(self) -> None:
        """Put down what will happen whoever is there: crashes, shortages, and what the daemon does by the clock."""
        dice, days, timeline = self._dice, self._order.days, self._timeline
        for _ in range(self._order.crashes):
            timeline.after(dice.uniform(0, days * DAY), self._crash)
        for _ in range(round(self._order.odds.shortages_a_day * days)):
            timeline.after(dice.uniform(0, days * DAY), self._run_short)
        self._every(SWEEP, self._sweep)
        self._every(HOUR, self._look_at_everything)

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self._timeline.after(seconds, again)

        self._timeline.after(seconds, again)

    def _rise(self) -> None:
        """Begin a life of the daemon with what was committed."""
        self._hands = hands = SimulatedExecutor(self._world, self._plug, self._house.model_of, self._asked_for)
        views = TaskLookups(
            pipeline_of=lambda task: self._house.pipelines[task.pipeline], model_of=self._house.model_of
        )
        self._store = MemoryStore(self._disk, self._plug)
        self._supervisor = Supervisor(self._store, hands, views, self._house.room, self._timeline.clock)
        self._supervisor.account.recall(self._store.account())
        hands.serve(self._supervisor)
        for found in self._store.summaries():
            if found.ended:
                self._supervisor.ended[found.id] = found.status
                self._supervisor.account.remember(found.spent)
            else:
                self._supervisor.recover(self._store.load(found.id, keep_open=True).task)
        self._supervisor.listen(self._heard)
        self._shortage = None
        self._look_at_room()
        self._running = asyncio.get_running_loop().create_task(self._supervisor.run())
        self._tally.counts["lives"] += 1

    def _crash(self) -> None:
        """The power goes now, or some moments later in the midst of a decision."""
        if self._hands is None:
            self._timeline.after(HOUR, self._crash)
        elif self._dice.random() < 0.2:
            self._fall()
        else:
            self._plug.pull_after(self._dice.randrange(12))

    def _fall(self) -> None:
        """The daemon is gone; it comes back in seconds, minutes or hours."""
        if self._hands is None:
            return
        self._hands.die()
        self._hands = None
        self._running.cancel()
        self._store.close()
        self._decided.clear()
        self._tally.counts["crashes"] += 1
        away = span(self._dice, self._dice.choice((5.0, 5.0, 5.0, 4 * MINUTE, HOUR)))
        life = self._tally.counts["lives"]

        def freeze() -> None:
            if self._hands is None and self._tally.counts["lives"] == life:
                self._world.freeze_orphans()

        self._timeline.after(self._house.orphan_after, freeze)
        self._timeline.after(away, self._rise)

    async def _take_in(self) -> None:
        """Let the supervisor take in all that it was told, people say their say, and the laws look."""
        while self._hands is not None and (self._hands.told or self._people.wishes):
            self._hands.told = False
            if await self._or_death(self._supervisor.settled()) and self._people.wishes:
                await self._grant(self._people.wishes.popleft())
        while self._people.wishes:
            self._people.away(self._people.wishes.popleft())
        self._judge(self._decided)
        self._decided.clear()

    async def _grant(self, wish: UserAction) -> None:
        """Ask the daemon for what a person wants; it may refuse, or die over it."""
        event = wish.event(self._timeline.now)
        try:
            if isinstance(event, events.TaskSubmitted):
                if wish.task_id in self._supervisor.tasks or wish.task_id in self._supervisor.ended:
                    return
                answered = await self._or_death(self._supervisor.submit(event))
            else:
                answered = await self._or_death(self._supervisor.request(wish.task_id, event))
        except OrchestratorError:
            self._tally.counts["refusals"] += 1
            return
        if not answered:
            self._people.away(wish)
            return
        if self._hands is not None:
            self._hands.told = True
        if isinstance(event, events.AskAnswered):
            self._tally.counts["answers"] += 1
            if (wish.task_id, event.number) in self._answered:
                self._break(wish.task_id, "the_first_answer_counts", f"ask {event.number} took a second answer")
            self._answered.add((wish.task_id, event.number))

    async def _or_death(self, work: "asyncio._CoroutineLike[object]") -> bool:
        """Wait for something, or for the daemon to die before; False if it died. Raises what the work raises."""
        waiting: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        await asyncio.wait({waiting, self._running}, return_when=asyncio.FIRST_COMPLETED)
        if not self._running.done():
            waiting.result()
            return True
        error = self._running.exception()
        if not isinstance(error, PowerCut):
            raise error or RuntimeError("the supervisor ended by itself")
        waiting.cancel()
        await asyncio.wait({waiting})
        self._fall()
        return False

    def _sweep(self) -> None:
        if self._hands is None:
            return
        self._supervisor.look_at_clock()
        self._hands.see_stalls(self._house.stall_after)
        self._supervisor.flush_telemetry()
        self._look_at_room()
        self._hands.told = True

    def _run_short(self) -> None:
        """The machine is short of something for a while."""
        self._reading = self._dice.choice(
            (
                ResourceReading(free_disk=0, available_memory=_PLENTY, load_per_core=0.0),
                ResourceReading(free_disk=_PLENTY, available_memory=0, load_per_core=0.0),
                ResourceReading(free_disk=_PLENTY, available_memory=_PLENTY, load_per_core=99.0),
            )
        )
        self._timeline.after(span(self._dice, 20 * MINUTE), self._recover_room)

    def _recover_room(self) -> None:
        self._reading = ResourceReading(free_disk=_PLENTY, available_memory=_PLENTY, load_per_core=0.0)

    def _look_at_room(self) -> None:
        self._shortage = judge(self._reading, self._house.floors, self._shortage)
        if self._hands is not None:
            self._supervisor.update_pressure(self._shortage)
            self._hands.told = True

    def _asked_for(self, task: Task, command: do.Command) -> None:
        """A command goes out: of a turn, the first time, the laws ask whether it may begin."""
        if isinstance(command, do.SendTurn) and command.uuid not in self._begun:
            self._begun.add(command.uuid)
            self._tally.counts["turns"] += 1
            law = invariants.a_turn_begins_only_when_it_may
            self._hold(task.id, law.__name__, law(task, self._supervisor.scene(), command))

    def _heard(self, task: Task, event: events.Event) -> None:
        """A decision was committed, and its commands went out."""
        before = self._last.get(task.id, task)
        self._last[task.id] = task
        self._decided.add(task.id)
        self._tally.counts["decisions"] += 1
        self._tally.see(task, self._timeline.now)
        if task.waits_for_service and not before.waits_for_service:
            self._tally.counts["limits"] += 1
        history = self._histories.setdefault(task.id, deque(maxlen=KEPT))
        history.append((self._timeline.now, event, task))
        ends, asks = invariants.what_has_ended_stays_ended, invariants.the_first_answer_counts
        self._hold(task.id, ends.__name__, ends(before.status, task.status))
        self._hold(task.id, asks.__name__, asks(before, task))
        self._people.look(task)

    def _judge(self, decided: Iterable[str]) -> None:
        """Ask the laws that hold whenever the supervisor has taken everything in."""
        if self._hands is None or not decided:
            return
        scene = self._supervisor.scene()
        self._hold("", invariants.places_are_kept.__name__, invariants.places_are_kept(scene))
        for task_id in self._hands.lost:
            self._break(task_id, "no_task_is_put_aside", "a bug was met in deciding about it")
        for said in self._disk.conflicts:
            self._break("", "every_decision_follows_the_last", said)
        for task_id in sorted(decided):
            self._judge_one(task_id, scene)

    def _judge_one(self, task_id: str, scene: SchedulerSnapshot) -> None:
        grounds, task = self._world.of(task_id), self._supervisor.tasks.get(task_id)
        living = self._world.living(task_id)
        self._hold(
            task_id, invariants.nothing_is_done_twice.__name__, invariants.nothing_is_done_twice(grounds.effects)
        )
        if task is None:
            ended = self._last[task_id]
            dead, bill = invariants.nothing_runs_when_it_is_over, invariants.the_bill_is_right
            self._hold(task_id, dead.__name__, dead(living))
            self._hold(task_id, bill.__name__, bill(ended, grounds.billed))
            return
        self._hold(task_id, invariants.one_run_at_most.__name__, invariants.one_run_at_most(living))
        moves = invariants.something_moves_it
        self._hold(task_id, moves.__name__, moves(task, scene, self._signs(task)))

    def _signs(self, task: Task) -> invariants.Signs:
        """What moves a task beside its own state."""
        hands = self._hands
        alarm = hands.alarms.get(task.id) if hands else None
        tree = self._world.tree(task.id, task.run.folder) if task.run else None
        waits = isinstance(tree, AgentTree) and tree.alive and (tree.hung or tree.asked is not None)
        return invariants.Signs(
            alarm=alarm.at if alarm and not alarm.off and alarm.at >= self._timeline.now else None,
            under_way=hands is not None and hands.under_way[task.id] > 0,
            is_active=tree is not None and tree.alive and (tree.busy or waits),
        )

    def _look_at_everything(self) -> None:
        """Let people and laws see every task there is."""
        if self._hands is None:
            return
        for task in self._supervisor.tasks.values():
            self._people.look(task)
        self._decided.update(self._supervisor.tasks)
        self._look_at_room()

    def _hold(self, task_id: str, law: str, broken: Iterable[str]) -> None:
        for text in broken:
            self._break(task_id, law, text)

    def _break(self, task_id: str, law: str, text: str) -> None:
        told = tuple(_line(*one) for one in self._histories.get(task_id, ()))
        self._violations.append(Violation(at=self._timeline.now, task=task_id, law=law, text=text, history=told))

    def _report(self, seconds: float) -> SimulationReport:
        tasks, counts = tuple(self._disk.tasks.values()), self._tally.counts
        spent = [task.spending.total for task in tasks]
        return SimulationReport(
            seed=self._order.seed,
            days=self._order.days,
            tasks=by_end(tasks),
            waits=self._tally.waits(self._timeline.now),
            crashes=counts["crashes"],
            restarts=counts["lives"] - 1,
            decisions=counts["decisions"],
            turns=counts["turns"],
            answers=counts["answers"],
            refusals=counts["refusals"],
            limits_met=counts["limits"],
            usd=round(sum(one.usd for one in spent), 2),
            tokens=sum(one.tokens for one in spent),
            seconds=round(seconds, 2),
            hours_a_second=round((self._timeline.now - START).total_seconds() / HOUR / max(seconds, 0.001), 2),
            violations=tuple(self._violations),
        )


def _dice(order: SimulationPlan, name: str) -> Random:
    return Random(f"{order.seed} {name}")  # noqa: S311 - a week that can be lived again, no secret


def _line(at: datetime, event: events.Event, task: Task) -> str:
    """A decision as a line of a history."""
    run = f"{task.run.folder} {task.run.process}" if task.run else "no run"
    agent = f"{task.agent.status}" + (f" for {task.agent.blocked_by}" if task.agent.blocked_by else "")
    retry = f" until {task.retry_at:%m-%d %H:%M:%S}" if task.retry_at else ""
    return (
        f"{at:%m-%d %H:%M:%S} {task.seq} {type(event).__name__}: {task.status} in {task.stage}, agent {agent}, "
        f"owes {task.next_action}{retry}, {run}"
    )
