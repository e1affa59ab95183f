"""What must hold after every decision of a simulated week, as pure functions: each tells how it is broken, if it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.decide.transitions import allowed
from orchestrator.core.events.commands import SendTurn
from orchestrator.core.schedule.admission import (
    SchedulerSnapshot,
    active_limit_before,
    block_reason,
    blockers,
    day_used_up,
    places,
    spent_today,
)
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Spending, reached_cap
from orchestrator.core.task.task import Task, TaskStatus

PENNY = 0.001
"""How far two sums of money may be apart for having been rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What moves a task beside its own state: its alarm, commands under way, and whether its processes are at work."""

    alarm: datetime | None
    under_way: bool
    is_active: bool


def places_are_kept(scene: SchedulerSnapshot) -> Iterator[str]:
    """Never more tasks at work than there are places."""
    holders = sum(task.holds_slot for task in scene.tasks)
    if holders > scene.room.places:
        yield f"{holders} tasks are at work in {scene.room.places} places"


def what_has_ended_stays_ended(before: TaskStatus, after: TaskStatus) -> Iterator[str]:
    """Terminal stays terminal."""
    if before.is_final and after is not before:
        yield f"it was {before} and is {after}"


def the_first_answer_counts(before: Task, after: Task) -> Iterator[str]:
    """No ask is answered twice, and none is forgotten."""
    if after.requests[: len(before.requests)] == before.requests:
        return
    if len(after.requests) < len(before.requests):
        yield "an ask is gone"
    for old, new in zip(before.requests, after.requests, strict=False):
        if not old.is_pending and (old.status, old.answer) != (new.status, new.answer):
            yield f"ask {old.number} was {old.status} and is {new.status}"


def a_turn_begins_only_when_it_may(task: Task, scene: SchedulerSnapshot, command: SendTurn) -> Iterator[str]:
    """No turn begins inside a wall of its model, beyond a cap, or in a day whose budget is used up."""
    begun = f"turn {command.attempt}/{command.turn} begins"
    wall = active_limit_before(task, scene)
    if wall is not None:
        yield f"{begun} inside {wall.window} until {wall.until}"
    cap = cap_reached(task)
    if cap is not None:
        yield f"{begun} though {cap}"
    over = reached_cap(spent_today(scene), scene.room.day)
    if over is not None:
        yield f"{begun} though the day's budget is used up: {over}"


def nothing_is_done_twice(effects: Mapping[str, int]) -> Iterator[str]:
    """Every effect is there once, however often it was asked for."""
    for name, count in effects.items():
        if count > 1:
            yield f"{name}: done {count} times"


def one_run_at_most(living: list[str]) -> Iterator[str]:
    """A task has one process tree at most."""
    if len(living) > 1:
        yield f"{' and '.join(living)} live at once"


def nothing_runs_when_it_is_over(living: list[str]) -> Iterator[str]:
    """Nothing of a task lives on that has ended."""
    for folder in living:
        yield f"{folder} lives on though the task has ended"


def the_bill_is_right(task: Task, billed: Spending) -> Iterator[str]:
    """What the task says it spent is what the account was billed for it; asked when nothing of it runs."""
    spent = task.spending.total
    if abs(spent.usd - billed.usd) > PENNY or spent.tokens != billed.tokens:
        yield f"it says ${spent.usd:.4f} and {spent.tokens} tokens, billed are ${billed.usd:.4f} and {billed.tokens}"


def something_moves_it(task: Task, scene: SchedulerSnapshot, signs: Signs) -> Iterator[str]:
    """Every task that is not at work has a reason that can be told, and something that will move it."""
    why = explain(task, scene)
    if not why.next or not all(why.facts):
        yield "nobody can say why it is where it is"
    if not (task.status.is_final or signs.under_way or _will_move(task, scene, signs)):
        agent = f"{task.agent.status} for {task.agent.blocked_by}"
        yield f"nothing moves it: {task.status} in {task.stage}, {agent}, owes {task.next_action}, {task.run}"


def _will_move(task: Task, scene: SchedulerSnapshot, signs: Signs) -> bool:
    if task.is_paused:
        return _will_go_on(task, scene, signs)
    match task.status:
        case TaskStatus.DRAFT | TaskStatus.BLOCKED:
            return bool(allowed(task))
        case TaskStatus.PENDING:
            return bool(blockers(task, scene)) or _waits_for_place(task, scene)
        case _:
            return signs.is_active or signs.alarm is not None


def _will_go_on(task: Task, scene: SchedulerSnapshot, signs: Signs) -> bool:
    match task.agent.blocked_by:
        case PauseReason.USER:
            return "resume" in allowed(task)
        case PauseReason.QUESTION | PauseReason.DEPENDENCY | PauseReason.REVIEW:
            return bool(task.pending_requests)
        case PauseReason.SERVICE:
            return task.retry_at is not None and signs.alarm is not None
        case PauseReason.RATE_LIMIT:
            by_itself = task.retry_at is not None and signs.alarm is not None
            by_a_person = bool(task.agent.setbacks.limit_waits) and task.retry_at is None and "resume" in allowed(task)
            return by_itself or by_a_person or active_limit_before(task, scene) is not None
        case PauseReason.BUDGET:
            return cap_reached(task) is not None or day_used_up(scene) is not None
        case PauseReason.PRESSURE:
            return scene.room.pressure is not None
        case None:
            return _waits_for_place(task, scene)


def _waits_for_place(task: Task, scene: SchedulerSnapshot) -> bool:
    """Whether it wants a place and gets none for a reason."""
    if not task.wants_slot:
        return False
    holders = sum(other.holds_slot for other in scene.tasks)
    room = scene.room
    return bool(room.pressure or room.draining or holders >= places(scene) or block_reason(task, scene))
