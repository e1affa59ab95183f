"""Which tasks may start or continue now: by priority, then by age, within the number of slots.

Only this module and the store assume that one process alone assigns slots, so many machines could share them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from functools import cached_property

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.run_windows import AtEdge, Closed, RunWindows, closed_for
from orchestrator.core.schedule.shared_budget import SharedBudget, shared_budgets
from orchestrator.core.schedule.trouble import Trouble
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.budget import NO_CAPS, NOTHING_SPENT, Caps, Spending, reached_cap
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import (
    NAMELESS,
    ActiveLimit,
    Allowance,
    Windows,
    active_limits,
    applies_to,
    is_known,
    nearly_used_up,
)

BETWEEN_TURNS = frozenset({NextAction.AGENT, NextAction.GATE, NextAction.RETRY, NextAction.STOP})
"""The next actions of a task whose next turn has not begun."""

BEFORE_AGENT = frozenset({NextAction.AGENT, NextAction.RETRY})
"""The next actions that surely lead to a turn. What was done before is still judged when a budget is used up."""

WITHOUT_AGENT = frozenset({NextAction.DELIVERY, NextAction.PUBLISH, NextAction.MERGE, NextAction.RELEASE})
"""The next actions that cost no turn. Usage limits and budgets do not delay them."""

END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How many tasks may be active, and what stops all of them or all new ones.

    `pressure` is the shortage for which no task may start or continue, `busy` the reason why no new task may start,
    `paused_by` who paused all tasks, including those submitted later. `day` limits what all tasks together may cost in
    a day (UTC); `turn_usd` is reserved from it for each running turn. `windows` are the hours in which tasks may run.
    """

    places: int = 1
    pressure: str | None = None
    busy: str | None = None
    draining: bool = False
    paused_by: str | None = None
    day: Caps = NO_CAPS
    turn_usd: float = 0.0
    limit_margin: float = 30.0
    windows: RunWindows = ()


@dataclass(frozen=True, kw_only=True)
class SchedulerSnapshot:
    """Everything that scheduling depends on at one moment: live tasks, how others ended, capacity, usage, the time.

    `windows` is the known usage of the account, `trouble` the reason why no turn can succeed, `ended_today` what ended
    tasks cost today, `unheard` what children cost whose parents have yet to take in that they ended. `model_of` returns
    the model that a task's next turn would use.
    """

    tasks: LiveTasks
    ended: Mapping[str, TaskStatus]
    capacity: Capacity
    now: datetime
    windows: Windows = field(default_factory=dict)
    ended_today: Spending = NOTHING_SPENT
    unheard: Mapping[str, Spending] = field(default_factory=dict)
    trouble: Trouble | None = None
    model_of: Callable[[Task], str] = lambda _: ""

    @property
    def obstacle(self) -> str | None:
        """Why no turn may begin; None also while one task tries whether the trouble is over."""
        return None if self.trouble is None or self.trouble.is_probed else self.trouble.reason

    def closed(self, task: Task) -> Closed | None:
        """Return that a task's run windows are closed; None if it may run now."""
        return closed_for(self.capacity.windows, task, self.now)

    @cached_property
    def shared(self) -> Mapping[str, tuple[SharedBudget, ...]]:
        """The budgets of parents, by the tasks that they bound."""
        return shared_budgets(self.tasks, self.unheard) if self.tasks.are_bounded else {}

    @cached_property
    def is_unrestricted(self) -> bool:
        """Whether only a free slot is needed to begin a turn, whichever task it is."""
        capacity = self.capacity
        by_account = self.obstacle or self.walls or self.limited
        return not (capacity.busy or capacity.windows or by_account or self.shared) and capacity.day == NO_CAPS

    @property
    def shared_budgets(self) -> tuple[SharedBudget, ...]:
        """The budgets that parents share with live children, each once."""
        return tuple({one.parent: one for found in self.shared.values() for one in found}.values())

    @cached_property
    def walls(self) -> tuple[ActiveLimit, ...]:
        """The usage windows that are used up, whichever models they apply to."""
        return active_limits(self.windows, self.now, self.capacity.limit_margin)

    @cached_property
    def limited(self) -> tuple[Task, ...]:
        """The tasks that wait for a person, or for a usage limit whose end the CLI did not report."""
        return tuple([task for task in self.tasks.held if task.waits_for_word or _waits_for_unknown_end(task, self)])


def tasks_to_admit(snapshot: SchedulerSnapshot) -> list[str]:
    """Return the ids of the tasks that may start or continue now, in the order of the queue."""
    free = places(snapshot) - len(snapshot.tasks.running)
    if snapshot.capacity.pressure or snapshot.capacity.draining or free <= 0:
        return []
    chosen: list[str] = []
    reasons: dict[tuple[object, ...], str | None] = {}
    for task in _order_of_admission(snapshot):
        if len(chosen) >= free:
            break
        key = (len(chosen), *_kind(task, snapshot))
        if key not in reasons:
            reasons[key] = block_reason(task, snapshot, len(chosen))
        if reasons[key] is None and may_begin(task, snapshot):
            chosen.append(task.id)
    return chosen


def _kind(task: Task, snapshot: SchedulerSnapshot) -> tuple[object, ...]:
    """Return what `block_reason` depends on: it is the same for all tasks of a kind."""
    if snapshot.is_unrestricted:
        return ()
    shared = tuple(budget.parent for budget in snapshot.shared.get(task.id, ()))
    return snapshot.model_of(task), task.next_action in WITHOUT_AGENT, task.status, shared, snapshot.closed(task)


def _order_of_admission(snapshot: SchedulerSnapshot) -> Sequence[Task]:
    """Return the queue; while a trouble is probed, tasks that have not met it go first, as it may be a task's own."""
    queue, trouble = snapshot.tasks.queue, snapshot.trouble
    if trouble is None:
        return queue
    met = {task_id: number for number, task_id in enumerate(trouble.met_by)}
    return sorted(queue, key=lambda task: met.get(task.id, -1))


def places(snapshot: SchedulerSnapshot) -> int:
    """Return how many tasks may be active at once; half as many while a usage window is nearly used up."""
    halved = nearly_used_up(snapshot.windows, snapshot.now)
    return max(1, snapshot.capacity.places // 2) if halved else snapshot.capacity.places


def block_reason(task: Task, snapshot: SchedulerSnapshot, starting: int = 0) -> str | None:
    """Return why a task may not start or continue though a slot is free; `starting` others are about to begin."""
    if snapshot.is_unrestricted:
        return None
    if snapshot.capacity.busy and task.status is TaskStatus.PENDING:
        return snapshot.capacity.busy
    if task.next_action in WITHOUT_AGENT:
        return None
    refusal = account_refusal(task, snapshot)
    return refusal[1] if refusal else shared_used_up(task, snapshot, starting) or day_used_up(snapshot, starting)


def is_within_budgets(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether every budget allows the task another turn: its own, those it shares, and the day's."""
    return cap_reached(task) is None and shared_limit(task, snapshot) is None and day_used_up(snapshot) is None


def shared_used_up(task: Task, snapshot: SchedulerSnapshot, starting: int = 0) -> str | None:
    """Return why a budget that a task shares with others allows it no turn; None if it allows one."""
    budget = shared_limit(task, snapshot, starting)
    return budget.used_up(task, snapshot.capacity.turn_usd, starting) if budget else None


def shared_limit(task: Task, snapshot: SchedulerSnapshot, starting: int = 0) -> SharedBudget | None:
    """Return the first used-up budget that a task shares with others."""
    most = snapshot.capacity.turn_usd
    return next((budget for budget in snapshot.shared.get(task.id, ()) if budget.used_up(task, most, starting)), None)


def account_refusal(task: Task, snapshot: SchedulerSnapshot) -> tuple[PauseReason, str] | None:
    """Return why its hours or the account allow a task no turn: the reason to pause it, and a text for people."""
    if closed := snapshot.closed(task):
        return PauseReason.WINDOW, closed.reason
    if snapshot.obstacle:
        return PauseReason.SERVICE, snapshot.obstacle
    if (limit := active_limit_before(task, snapshot)) is None:
        return None
    end = f"lasts until {limit.until:%Y-%m-%d %H:%M:%S} UTC" if limit.until else "lasts until a person resumes the task"
    return PauseReason.RATE_LIMIT, f"the account's usage limit ({limit.window}) {end}"


def allowance_for(task: Task, snapshot: SchedulerSnapshot) -> Allowance:
    """Return what the account and the budgets leave for a task, not counting its own present turn."""
    most = snapshot.capacity.turn_usd
    shared = tuple((budget.caps, budget.without(task, most)) for budget in snapshot.shared.get(task.id, ()))
    if snapshot.capacity.day == NO_CAPS:
        return Allowance(refusal=account_refusal(task, snapshot), shared=shared)
    others = replace(snapshot, tasks=LiveTasks(other for other in snapshot.tasks if other.id != task.id))
    spent = spent_today(others) + _reserved(others)
    refusal, day = account_refusal(task, snapshot), snapshot.capacity.day
    return Allowance(refusal=refusal, day=day, spent_by_others=spent, shared=shared)


def active_limit_before(task: Task, snapshot: SchedulerSnapshot) -> ActiveLimit | None:
    """Return the longest usage limit that keeps a task from its next turn: a reported one, or one another task hit."""
    if not snapshot.walls and not snapshot.limited:
        return None
    model = snapshot.model_of(task)
    limits = active_limits(snapshot.windows, snapshot.now, snapshot.capacity.limit_margin, model)
    other = account_limit(snapshot, model)
    if other is not None and other.id != task.id:
        limits = (*limits, ActiveLimit(window=f"hit by {other.id}", until=other.retry_at))
    return max(limits, key=lambda limit: limit.until or END_OF_TIME, default=None)


def account_limit(snapshot: SchedulerSnapshot, model: str | None = None) -> Task | None:
    """Return the task that waits longest for a person, or for a usage limit whose end the CLI did not report.

    Other tasks wait at least as long. With `model`, only limits that apply to this model count.
    """
    waiting = [
        task for task in snapshot.limited if model is None or applies_to(task.agent.setbacks.limit_window or "", model)
    ]
    return max(waiting, key=lambda task: task.retry_at or END_OF_TIME, default=None)


def _waits_for_unknown_end(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether a task hit a usage limit itself and waits to try again, because no end was reported."""
    is_to_come = task.retry_at is not None and task.retry_at > snapshot.now
    return _hit_limit(task) and is_to_come and not is_known(snapshot.windows, task.agent.setbacks.limit_window)


def _hit_limit(task: Task) -> bool:
    """Return whether a task is paused because its own turn hit a usage limit, not because another task's did."""
    return task.is_paused and task.agent.blocked_by is PauseReason.RATE_LIMIT and task.agent.setbacks.limit_waits > 0


def tasks_at_limit(snapshot: SchedulerSnapshot, window: str | None) -> list[str]:
    """Return the ids of the tasks that are paused because they hit a usage limit: of one window, or of any."""
    return [
        task.id
        for task in snapshot.tasks
        if _hit_limit(task) and window in (None, task.agent.setbacks.limit_window or NAMELESS)
    ]


def spent_today(snapshot: SchedulerSnapshot) -> Spending:
    """Return what all tasks have used today (UTC)."""
    day = f"{snapshot.now:%Y-%m-%d}"
    return sum(
        (task.spending.by_day[day] for task in snapshot.tasks if day in task.spending.by_day), snapshot.ended_today
    )


def next_day(now: datetime) -> datetime:
    """Return when the day ends whose budget counts."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(tzinfo=UTC))


def day_used_up(snapshot: SchedulerSnapshot, starting: int = 0) -> str | None:
    """Return why no more may be spent today; money reserved for running turns counts as spent."""
    if snapshot.capacity.day == NO_CAPS:
        return None
    over = reached_cap(spent_today(snapshot) + _reserved(snapshot, starting), snapshot.capacity.day)
    return f"the day's budget is used up: {over}" if over else None


def _reserved(snapshot: SchedulerSnapshot, starting: int = 0) -> Spending:
    """Return what is reserved for running turns, at least what they have used, and for `starting` ones to come."""
    most, turns = snapshot.capacity.turn_usd, [task.agent.turn for task in snapshot.tasks.running]
    return Spending(usd=most * starting + sum(max(most, turn.usd) for turn in turns if turn.deadline is not None))


def turns_to_interrupt(snapshot: SchedulerSnapshot) -> Iterator[tuple[str, int, str]]:
    """Yield running turns that used up a budget they share: the task's id, the turn's number, and the reason.

    The cap on the number of turns is left out, because interrupting a turn would not lower it.
    """
    for budget in snapshot.shared_budgets:
        if over := budget.overrun(snapshot.now):
            yield from ((task.id, task.agent.turn.number, over) for task in budget.running)
    if snapshot.capacity.day == NO_CAPS:
        return
    running = [
        task
        for task in snapshot.tasks.running
        if task.next_action is NextAction.TURN and (task.agent.turn.tokens or task.agent.turn.usd)
    ]
    seconds = sum((snapshot.now - (task.agent.turn.active_since or snapshot.now)).total_seconds() for task in running)
    usd, tokens = sum(task.agent.turn.usd for task in running), sum(task.agent.turn.tokens for task in running)
    unbilled = Spending(usd=usd, tokens=tokens, seconds=seconds)
    over = reached_cap(spent_today(snapshot) + unbilled, replace(snapshot.capacity.day, turns=None))
    if over:
        yield from ((task.id, task.agent.turn.number, f"the day's budget is used up: {over}") for task in running)


def tasks_to_pause(snapshot: SchedulerSnapshot) -> Iterator[tuple[str, PauseReason, str]]:
    """Yield the tasks that must freeze, or must not begin their next turn: id, reason to pause, text for people."""
    for task in snapshot.tasks.running:
        closed = snapshot.closed(task)
        if closed and closed.at_edge is AtEdge.FREEZE and task.next_action not in WITHOUT_AGENT:
            yield task.id, PauseReason.WINDOW, closed.reason
            continue
        is_between = task.agent.turn.deadline is None and task.next_action in BETWEEN_TURNS
        if is_between or _is_thawing(task):
            refusal, reason = account_refusal(task, snapshot), block_reason(task, snapshot)
            if refusal is not None:
                yield task.id, *refusal
            elif reason is not None and (task.next_action in BEFORE_AGENT or not is_between):
                yield task.id, PauseReason.BUDGET, reason


def _is_thawing(task: Task) -> bool:
    """Return whether a turn is sent to the task as soon as its processes are thawed, or has used nothing yet."""
    is_frozen = task.run is not None and task.run.process is ProcessState.FROZEN
    return is_frozen and task.next_action is NextAction.TURN and not task.agent.turn.tokens


def task_to_notify(snapshot: SchedulerSnapshot) -> str | None:
    """Return the first task that a trouble delays. Its notice tells people about the trouble."""
    paused = (task for task in snapshot.tasks.paused if task.retry_at is None)
    held = (task for task in paused if task.agent.blocked_by is PauseReason.SERVICE)
    waiting = (task for task in snapshot.tasks.queue if may_begin(task, snapshot) and block_reason(task, snapshot))
    return next((task.id for task in (*held, *waiting)), None)


def tasks_to_resume(snapshot: SchedulerSnapshot) -> Iterator[tuple[str, PauseReason]]:
    """Yield the tasks that admission paused and whose reason is gone, with that reason."""
    for task in snapshot.tasks.held:
        reason = task.agent.blocked_by
        if reason is not None and _is_over(reason, task, snapshot):
            yield task.id, reason


def _is_over(reason: PauseReason, task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether this reason pauses a task no more; while it was paused, its next turn may have become needless."""
    is_needless = task.next_action in WITHOUT_AGENT
    match reason:
        case PauseReason.BUDGET:
            return is_within_budgets(task, snapshot)
        case PauseReason.WINDOW:
            return is_needless or snapshot.closed(task) is None
        case _ if task.agent.setbacks.limit_waits:
            return False  # it hit the limit itself, and has its own time to try again
        case PauseReason.RATE_LIMIT:
            return is_needless or active_limit_before(task, snapshot) is None
        case PauseReason.SERVICE:
            return task.retry_at is None and (is_needless or snapshot.obstacle is None)
        case _:
            return False


def blockers(task: Task, snapshot: SchedulerSnapshot) -> tuple[str, ...]:
    """Return what keeps a new task from starting even if a slot is free: its start time, and tasks it depends on."""
    if may_begin(task, snapshot):
        return ()
    status = {**{other.id: other.status for other in snapshot.tasks}, **snapshot.ended}
    early = (f"it starts at {task.schedule.start_at:%Y-%m-%d %H:%M} UTC",) if _is_early(task, snapshot) else ()
    awaited = _unfinished_dependencies(task, snapshot)
    return (*early, *(f"it waits for {other}, which is {status.get(other, 'not finished')}" for other in awaited))


def may_begin(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether a new task may start as soon as a slot is free: its time has come and it awaits no task."""
    is_new = task.status is TaskStatus.PENDING
    return not is_new or not (_is_early(task, snapshot) or _unfinished_dependencies(task, snapshot))


def _is_early(task: Task, snapshot: SchedulerSnapshot) -> bool:
    return task.schedule.start_at is not None and snapshot.now < task.schedule.start_at


def _unfinished_dependencies(task: Task, snapshot: SchedulerSnapshot) -> list[str]:
    if task.schedule.after_any_end:
        return [other for other in task.schedule.after if other not in snapshot.ended]
    return [other for other in task.schedule.after if snapshot.ended.get(other) is not TaskStatus.COMPLETED]
