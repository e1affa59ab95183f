"""What must hold after every decision of a simulation, as pure functions that yield a text for each violation."""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.commands import SendTurn
from orchestrator.core.schedule.admission import (
    WITHOUT_AGENT,
    SchedulerSnapshot,
    active_limit_before,
    block_reason,
    blockers,
    is_within_budgets,
    places,
    spent_today,
)
from orchestrator.core.schedule.run_windows import AtEdge
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.budget import Spending, reached_cap
from orchestrator.core.task.children import Child
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus

PENNY = 0.001
"""By how much two sums of money may differ because of rounding; USD."""

ENDS_TURN = WITHOUT_AGENT | {
    *(NextAction.TURN, NextAction.INTERRUPT, NextAction.STOP, NextAction.CHECKS, NextAction.WORKSPACE)
}
"""What a task may be doing although its run windows are closed, where they let agents end their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSigns:
    """What can advance a task besides its own state: its alarm, commands in flight, and whether its processes work."""

    alarm: datetime | None
    in_flight: bool
    is_active: bool


def active_tasks_fit_places(snapshot: SchedulerSnapshot) -> Iterator[str]:
    """No more tasks are active than there are slots."""
    holders = len(snapshot.tasks.running)
    if holders > snapshot.capacity.places:
        yield f"{holders} tasks are active in {snapshot.capacity.places} slots"


def no_task_runs_outside_its_window(snapshot: SchedulerSnapshot) -> Iterator[str]:
    """While its run windows are closed, a task is frozen, or ends its turn and its checks, or brings its work home."""
    for task in snapshot.tasks.running:
        closed = snapshot.closed(task)
        ends = WITHOUT_AGENT if closed and closed.at_edge is AtEdge.FREEZE else ENDS_TURN
        if closed and task.next_action not in ends:
            yield f"{task.id} is active, its next action is {task.next_action}, and {closed.reason}"


def closed_window_is_named(task: Task, snapshot: SchedulerSnapshot) -> Iterator[str]:
    """What waits for its run windows says so, and when they open."""
    closed = snapshot.closed(task)
    if not (closed and task.is_paused and task.agent.blocked_by is PauseReason.WINDOW):
        return
    why = explain(task, snapshot)
    if closed.opens_in(snapshot.now) not in why.facts:
        yield f"{closed.reason}, but {'; '.join(why.facts)}"


def processes_stand_still_as_the_task_does(task: Task, *, are_frozen: bool) -> Iterator[str]:
    """The processes of a task that waits for its run windows do not work; a task that goes on has none frozen."""
    if task.run is None:
        return
    waits = task.is_paused and task.agent.blocked_by is PauseReason.WINDOW
    if waits and task.run.process in (ProcessState.RUNNING, ProcessState.FROZEN) and not are_frozen:
        yield f"it waits for its run windows, and {task.run.folder} works"
    if not task.is_paused and task.run.process is ProcessState.RUNNING and are_frozen:
        yield f"it goes on, and {task.run.folder} is frozen"


def final_status_is_permanent(before: TaskStatus, after: TaskStatus) -> Iterator[str]:
    """A task that has ended keeps its final status."""
    if before.is_final and after is not before:
        yield f"it was {before} and is {after}"


def requests_are_answered_once(before: Task, after: Task) -> Iterator[str]:
    """No request is answered twice, and none is lost."""
    if after.requests[: len(before.requests)] == before.requests:
        return
    if len(after.requests) < len(before.requests):
        yield "a request is gone"
    for old, new in zip(before.requests, after.requests, strict=False):
        if not old.is_pending and (old.status, old.answer) != (new.status, new.answer):
            yield f"request {old.number} was {old.status} and is {new.status}"


def turns_respect_limits_and_budgets(task: Task, snapshot: SchedulerSnapshot, command: SendTurn) -> Iterator[str]:
    """No turn starts under a usage limit, beyond a cap of its task or of a parent, or beyond the day's budget."""
    start = f"turn {command.attempt}/{command.turn} starts"
    limit = active_limit_before(task, snapshot)
    if limit is not None:
        yield f"{start} under the limit {limit.window}, which lasts until {limit.until}"
    closed = snapshot.closed(task)
    if closed is not None:
        yield f"{start} although {closed.reason}"
    cap = cap_reached(task)
    if cap is not None:
        yield f"{start} although {cap}"
    for budget in snapshot.shared.get(task.id, ()):
        if reached_cap(budget.spent, budget.caps):
            yield f"{start} although {budget.used_up(task)}"
    over = reached_cap(spent_today(snapshot), snapshot.capacity.day)
    if over is not None:
        yield f"{start} although the day's budget is used up: {over}"


def shared_budget_is_kept(snapshot: SchedulerSnapshot, largest_turn: Callable[[str], float]) -> Iterator[str]:
    """A family spends at most its cap and one turn; `largest_turn` returns the cost of the dearest below a parent."""
    for budget in snapshot.shared_budgets:
        most = largest_turn(budget.parent)
        if budget.caps.usd is not None and budget.spent.usd > budget.caps.usd + most + PENNY:
            yield f"{budget.parent} and its children spent ${budget.spent.usd:.2f} of ${budget.caps.usd:.2f}"


def squashed_work_is_one_commit(pipeline: Pipeline, child: Task, parent_joined: Mapping[str, int]) -> Iterator[str]:
    """A child whose pipeline says so brings one commit home, or none if it changed nothing."""
    commits = parent_joined.get(child.id, 0)
    if commits > 1 and any(stage.squash for stage in pipeline.stages.values()):
        yield f"it brought {commits} commits home"


def children_exist(parent: Task, stored: Container[str]) -> Iterator[str]:
    """Every child that its parent submitted is a task."""
    for child in parent.children:
        if child.status.is_live and child.task not in stored:
            yield f"its child {child.task} is gone"


def child_has_parent(child: Task, snapshot: SchedulerSnapshot) -> Iterator[str]:
    """The parent of a live child is live too: it would cancel the child before it ends."""
    if child.parent is not None and all(task.id != child.parent for task in snapshot.tasks):
        yield f"its parent {child.parent} is gone"


def effects_happen_once(effects: Mapping[str, int]) -> Iterator[str]:
    """Every effect happens once, however often it is requested."""
    for name, count in effects.items():
        if count > 1:
            yield f"{name}: happened {count} times"


def at_most_one_run_is_alive(live_runs: list[str]) -> Iterator[str]:
    """A task has at most one live process tree."""
    if len(live_runs) > 1:
        yield f"{' and '.join(live_runs)} are alive at once"


def ended_tasks_have_no_run(live_runs: list[str]) -> Iterator[str]:
    """A task that has ended has no live process tree."""
    for folder in live_runs:
        yield f"{folder} is alive although the task has ended"


def recorded_spending_matches_bill(task: Task, billed: Spending) -> Iterator[str]:
    """The spending that the task records equals what the account was billed; checked when no run of it is alive."""
    spent = task.spending.total
    if abs(spent.usd - billed.usd) > PENNY or spent.tokens != billed.tokens:
        yield f"recorded ${spent.usd:.4f} and {spent.tokens} tokens, billed ${billed.usd:.4f} and {billed.tokens}"


def task_can_progress(task: Task, snapshot: SchedulerSnapshot, signs: ProgressSigns) -> Iterator[str]:
    """Every task can be explained, and unless it has ended, something will advance it."""
    why = explain(task, snapshot)
    if not why.next or not all(why.facts):
        yield "its state cannot be explained"
    if not (task.status.is_final or signs.in_flight or _can_progress(task, snapshot, signs)):
        agent = f"{task.agent.status} for {task.agent.blocked_by}"
        yield f"nothing will advance it: {task.status} in {task.stage}, {agent}, next {task.next_action}, {task.run}"


def _can_progress(task: Task, snapshot: SchedulerSnapshot, signs: ProgressSigns) -> bool:
    if task.is_paused:
        return _can_resume(task, snapshot, signs)
    match task.status:
        case TaskStatus.DRAFT | TaskStatus.BLOCKED:
            return bool(allowed(task))
        case TaskStatus.PENDING:
            return bool(blockers(task, snapshot)) or _waits_for_place(task, snapshot)
        case _:
            return signs.is_active or signs.alarm is not None


def _can_resume(task: Task, snapshot: SchedulerSnapshot, signs: ProgressSigns) -> bool:
    match task.agent.blocked_by:
        case PauseReason.USER:
            return "resume" in allowed(task)
        case PauseReason.CHILDREN:
            return all(_can_end(child, snapshot) for child in task.children if child.status.is_open)
        case PauseReason.QUESTION | PauseReason.DEPENDENCY | PauseReason.REVIEW:
            return bool(task.pending_requests)
        case PauseReason.SERVICE:
            return task.retry_at is not None and signs.alarm is not None
        case PauseReason.RATE_LIMIT:
            automatic = task.retry_at is not None and signs.alarm is not None
            manual = bool(task.agent.setbacks.limit_waits) and task.retry_at is None and "resume" in allowed(task)
            return automatic or manual or active_limit_before(task, snapshot) is not None
        case PauseReason.BUDGET:
            return not is_within_budgets(task, snapshot)
        case PauseReason.WINDOW:
            return (closed := snapshot.closed(task)) is not None and closed.until is not None
        case PauseReason.PRESSURE:
            return snapshot.capacity.pressure is not None
        case None:
            return _waits_for_place(task, snapshot)


def _can_end(child: Child, snapshot: SchedulerSnapshot) -> bool:
    """Whether a child has yet to be submitted, or to end."""
    task = next((task for task in snapshot.tasks if task.id == child.task), None)
    return not child.status.is_live or (task is not None and not task.is_over)


def _waits_for_place(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Whether it needs a slot, and something keeps it from getting one."""
    if not task.wants_slot:
        return False
    capacity, taken = snapshot.capacity, len(snapshot.tasks.running)
    return bool(capacity.pressure or capacity.draining or taken >= places(snapshot) or block_reason(task, snapshot))
