"""Checks the invariants while a simulation runs, counts what happens, and records violations with their history."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import SchedulerSnapshot
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.supervisor.simulation import invariants
from orchestrator.supervisor.simulation.agents import AgentTree
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.executor import SimulatedExecutor
from orchestrator.supervisor.simulation.memory import MemoryDisk
from orchestrator.supervisor.simulation.metrics import Metrics, Violation
from orchestrator.supervisor.simulation.world import World
from orchestrator.supervisor.supervisor import Supervisor

HISTORY = 40
"""How many of the last decisions about a task a violation shows."""


class Monitor:
    """Observes commands, answers and decisions; `violations` are the invariants that did not hold."""

    def __init__(self, world: World, disk: MemoryDisk, clock: VirtualClock, metrics: Metrics) -> None:
        self.violations: list[Violation] = []
        self._world, self._disk, self._clock, self._metrics = world, disk, clock, metrics
        self._histories: dict[str, deque[tuple[datetime, events.Event, Task]]] = {}
        self._last: dict[str, Task] = {}
        self._to_check: set[str] = set()
        self._started_turns: set[str] = set()
        self._answered: set[tuple[str, int]] = set()

    def on_command(self, task: Task, command: do.Command, supervisor: Supervisor) -> None:
        """Check a turn that is sent for the first time."""
        if isinstance(command, do.SendTurn) and command.uuid not in self._started_turns:
            self._started_turns.add(command.uuid)
            self._metrics.counts["turns"] += 1
            invariant = invariants.turns_respect_limits_and_budgets
            self._record(task.id, invariant.__name__, invariant(task, supervisor.snapshot(), command))

    def on_answer(self, task_id: str, number: int) -> None:
        """Check an answer that the daemon accepted."""
        self._metrics.counts["answers"] += 1
        if (task_id, number) in self._answered:
            texts = (f"request {number} accepted a second answer",)
            self._record(task_id, invariants.requests_are_answered_once.__name__, texts)
        self._answered.add((task_id, number))

    def on_decision(self, task: Task, event: events.Event) -> None:
        """Check a decision that was committed against the one before it."""
        before = self._last.get(task.id, task)
        self._last[task.id] = task
        self._to_check.add(task.id)
        self._metrics.counts["decisions"] += 1
        self._metrics.record(task, self._clock.now)
        if task.waits_for_service and not before.waits_for_service:
            self._metrics.counts["limits"] += 1
        history = self._histories.setdefault(task.id, deque(maxlen=HISTORY))
        history.append((self._clock.now, event, task))
        permanent, answered = invariants.final_status_is_permanent, invariants.requests_are_answered_once
        self._record(task.id, permanent.__name__, permanent(before.status, task.status))
        self._check_family(task)
        self._record(task.id, answered.__name__, answered(before, task))

    def _check_family(self, task: Task) -> None:
        """Check a decision about a child or a parent."""
        if task.children:
            exist = invariants.children_exist
            self._record(task.id, exist.__name__, exist(task, self._disk.tasks))
        if task.parent is not None and task.status is TaskStatus.COMPLETED:
            one, joined = invariants.squashed_work_is_one_commit, self._world.of(task.parent).joined
            self._record(task.id, one.__name__, one(self._world.pipeline_of(task), task, joined))

    def add_to_check(self, task_ids: Iterable[str]) -> None:
        """Include tasks in the next `check` although nothing was decided about them."""
        self._to_check.update(task_ids)

    def skip_check(self) -> None:
        """Forget which tasks to check, because the daemon crashed."""
        self._to_check.clear()

    def check(self, supervisor: Supervisor, executor: SimulatedExecutor) -> None:
        """Check the tasks with new decisions; call it when the supervisor has processed all its events."""
        if not self._to_check:
            return
        snapshot = supervisor.snapshot()
        self._record("", invariants.active_tasks_fit_places.__name__, invariants.active_tasks_fit_places(snapshot))
        in_hours = invariants.no_task_runs_outside_its_window
        self._record("", in_hours.__name__, in_hours(snapshot))
        for task_id in executor.abandoned:
            self._record(task_id, "no_task_is_abandoned", ("a decision about it raised an unexpected error",))
        self._record("", "decisions_are_consecutive", self._disk.conflicts)
        kept = invariants.shared_budget_is_kept
        self._record("", kept.__name__, kept(snapshot, self._world.largest_turn))
        for task_id in sorted(self._to_check):
            self._check_task(task_id, supervisor.tasks.get(task_id), snapshot, executor)
        self._to_check.clear()

    def _check_task(
        self, task_id: str, task: Task | None, snapshot: SchedulerSnapshot, executor: SimulatedExecutor
    ) -> None:
        """Check one task; None stands for a task that has ended."""
        world, alive = self._world.of(task_id), self._world.live_runs(task_id)
        once = invariants.effects_happen_once
        self._record(task_id, once.__name__, once(world.effects))
        if task is None:
            no_run, bill = invariants.ended_tasks_have_no_run, invariants.recorded_spending_matches_bill
            self._record(task_id, no_run.__name__, no_run(alive))
            self._record(task_id, bill.__name__, bill(self._last[task_id], world.billed))
            return
        one_run, progress = invariants.at_most_one_run_is_alive, invariants.task_can_progress
        has_parent = invariants.child_has_parent
        self._record(task_id, has_parent.__name__, has_parent(task, snapshot))
        named = invariants.closed_window_is_named
        self._record(task_id, named.__name__, named(task, snapshot))
        self._record(task_id, one_run.__name__, one_run(alive))
        tree = self._world.tree(task_id, task.run.folder) if task.run else None
        if tree is not None and tree.alive and not executor.in_flight[task_id]:
            still = invariants.processes_stand_still_as_the_task_does
            self._record(task_id, still.__name__, still(task, are_frozen=tree.frozen))
        self._record(task_id, progress.__name__, progress(task, snapshot, self._signs(task, executor)))

    def _signs(self, task: Task, executor: SimulatedExecutor) -> invariants.ProgressSigns:
        alarm = executor.alarms.get(task.id)
        tree = self._world.tree(task.id, task.run.folder) if task.run else None
        waits = isinstance(tree, AgentTree) and tree.alive and (tree.hung or tree.open_request is not None)
        return invariants.ProgressSigns(
            alarm=alarm.at if alarm and not alarm.cancelled and alarm.at >= self._clock.now else None,
            in_flight=executor.in_flight[task.id] > 0,
            is_active=tree is not None and tree.alive and (tree.busy or waits),
        )

    def record_schedules(self, violations: Iterable[tuple[str, str]]) -> None:
        """Record what is wrong with schedules."""
        for name, text in violations:
            self._record(name, "each_time_of_a_schedule_counts_once", (text,))

    def _record(self, task_id: str, invariant: str, texts: Iterable[str]) -> None:
        """Record a violation for each text."""
        for text in texts:
            history = tuple(_line(*one) for one in self._histories.get(task_id, ()))
            self.violations.append(
                Violation(at=self._clock.now, task=task_id, invariant=invariant, text=text, history=history)
            )


def _line(at: datetime, event: events.Event, task: Task) -> str:
    """Return a decision as a line of a history."""
    run = f"{task.run.folder} {task.run.process}" if task.run else "no run"
    agent = f"{task.agent.status}" + (f" for {task.agent.blocked_by}" if task.agent.blocked_by else "")
    retry = f" until {task.retry_at:%m-%d %H:%M:%S}" if task.retry_at else ""
    return (
        f"{at:%m-%d %H:%M:%S} {task.seq} {type(event).__name__}: {task.status} in {task.stage}, agent {agent}, "
        f"next {task.next_action}{retry}, {run}"
    )
