"""The budget that a parent shares with its children: its caps bound what it and all tasks below it spend together.

A parent keeps what its ended children have spent. What the live ones have spent is in their own state, so the sum is
made anew at each look. Between the decision that ends a child and the one in which its parent takes that in, `unheard`
has what the child spent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.core.task.budget import NO_CAPS, NOTHING_SPENT, Caps, Spending, reached_cap, reached_caps
from orchestrator.core.task.children import parent_id
from orchestrator.core.task.task import NextAction, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBudget:
    """The caps of a parent, and what it and the tasks below it have spent by finished turns.

    `members` are the live ones of these tasks, the parent among them.
    """

    parent: str
    caps: Caps
    spent: Spending
    members: tuple[Task, ...]

    def used_up(self, task: Task, turn_usd: float = 0.0, starting: int = 0) -> str | None:
        """Return why a member may begin no turn; others' running and `starting` turns count as `turn_usd` at least."""
        if over := self._over(self.spent + self._unbilled, self.caps):
            return over
        to_come = Spending(usd=turn_usd * starting, turns=starting)
        if not reached_cap(self.spent + self._reserved(task, turn_usd) + to_come, self.caps):
            return None
        return f"what is left of the budget of {self.parent} and its children is reserved for their running turns"

    @property
    def options(self) -> tuple[str, ...]:
        """Return the names of the caps that have to be raised before another turn can begin."""
        return tuple(reached_caps(self.spent + self._unbilled, self.caps))

    def overrun(self, now: datetime) -> str | None:
        """Return why running turns must end: they have used up what was left. The number of turns is left out,
        because interrupting a turn would not lower it.
        """
        seconds = sum((now - (task.agent.turn.active_since or now)).total_seconds() for task in self.running)
        used = self.spent + self._unbilled + Spending(seconds=seconds)
        return self._over(used, replace(self.caps, turns=None))

    def without(self, task: Task, turn_usd: float) -> Spending:
        """Return what the other members have spent, and what is reserved for their running turns."""
        turn = task.agent.turn
        own = task.spending.whole + Spending(usd=turn.usd, tokens=turn.tokens)
        return self.spent + self._reserved(task, turn_usd) - own

    @property
    def _unbilled(self) -> Spending:
        """What unfinished turns have used so far."""
        turns = [task.agent.turn for task in self.members]
        return Spending(usd=sum(turn.usd for turn in turns), tokens=sum(turn.tokens for turn in turns))

    def _reserved(self, task: Task, turn_usd: float) -> Spending:
        """Return what unfinished turns have used, and what else the running ones of others than `task` may use."""
        others = [one.agent.turn for one in self.members if one.id != task.id and _is_in_turn(one)]
        more = sum(max(0.0, turn_usd - turn.usd) for turn in others)
        return self._unbilled + Spending(usd=more, turns=len(others))

    @property
    def running(self) -> tuple[Task, ...]:
        """The members whose turn is under way in a session that has begun."""
        return tuple(
            task
            for task in self.members
            if _is_in_turn(task) and task.next_action is NextAction.TURN and task.agent.session.is_known
        )

    def _over(self, used: Spending, caps: Caps) -> str | None:
        over = reached_cap(used, caps)
        return f"the budget of {self.parent} and its children is used up: {over}" if over else None


def shared_budgets(tasks: Sequence[Task], unheard: Mapping[str, Spending]) -> Mapping[str, tuple[SharedBudget, ...]]:
    """Return the budgets that bound each live task besides its own, by its id; only tasks with one are named."""
    if not any(task.children and task.policy.caps != NO_CAPS for task in tasks):
        return {}
    by_id = {task.id: task for task in tasks if task.parent is not None or task.children}
    members: dict[str, list[Task]] = {}
    for task in by_id.values():
        if task.parent is not None:
            for holder in capped_above(task.parent, by_id):
                members.setdefault(holder.id, [holder]).append(task)
    if not members:
        return {}
    left = {name: spent for name, spent in unheard.items() if name not in by_id or by_id[name].is_over}
    budgets = {name: _budget(by_id[name], found, left, by_id) for name, found in members.items()}
    bounds: dict[str, list[SharedBudget]] = {}
    for budget in budgets.values():
        for task in budget.members:
            bounds.setdefault(task.id, []).append(budget)
    return {name: tuple(found) for name, found in bounds.items()}


def spent_by_all(parent: Task, tasks: Iterable[Task], unheard: Mapping[str, Spending]) -> Spending:
    """Return what a task and all tasks below it have spent."""
    by_id = {task.id: task for task in tasks if task.parent is not None or task.children} | {parent.id: parent}
    below = [task for task in by_id.values() if any(one is parent for one in _above(task.parent, by_id))]
    return _sum([parent, *below], parent, unheard, by_id)


def _budget(
    holder: Task, members: Sequence[Task], unheard: Mapping[str, Spending], by_id: Mapping[str, Task]
) -> SharedBudget:
    spent = _sum(members, holder, unheard, by_id)
    return SharedBudget(parent=holder.id, caps=holder.policy.caps, spent=spent, members=tuple(members))


def _sum(members: Iterable[Task], holder: Task, unheard: Mapping[str, Spending], by_id: Mapping[str, Task]) -> Spending:
    """Return what these tasks have spent, and what those did whose parents have not taken in that they ended."""
    counted = [task.spending.whole for task in members if task is holder or not task.is_over]
    ended = [spent for name, spent in unheard.items() if any(one is holder for one in _above(parent_id(name), by_id))]
    return sum((spent for spent in (*counted, *ended) if spent != NOTHING_SPENT), NOTHING_SPENT)


def _is_in_turn(task: Task) -> bool:
    return task.holds_slot and task.agent.turn.deadline is not None


def _above(name: str | None, by_id: Mapping[str, Task]) -> Iterator[Task]:
    """Yield the task of that id, if it is live, its parent, and so on."""
    while name and (task := by_id.get(name)) is not None:
        yield task
        name = task.parent


def capped_above(name: str, by_id: Mapping[str, Task]) -> Iterator[Task]:
    """Yield the task of that id, its parent and so on, as far as they are live and have caps."""
    return (task for task in _above(name, by_id) if task.policy.caps != NO_CAPS)
