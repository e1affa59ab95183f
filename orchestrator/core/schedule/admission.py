"""Who may start or go on now: by priority, then by age, within the number of slots.

All that one process assumes alone about slots is here and in the store, so that many machines could share them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.task.agent import PAUSED, PauseReason
from orchestrator.core.task.budget import NO_CAPS, NOTHING_SPENT, Caps, Spending, reached_cap
from orchestrator.core.task.task import NextAction, Priority, Task, TaskStatus
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
"""What a task owes whose next turn has not begun."""

WITHOUT_AGENT = frozenset({NextAction.DELIVERY, NextAction.PUBLISH, NextAction.MERGE, NextAction.RELEASE})
"""What costs no turn, and so waits for no usage window."""

HOLDS = frozenset({PauseReason.RATE_LIMIT, PauseReason.SERVICE, PauseReason.BUDGET})
"""What admission pauses a task for, and lets it go on after."""

FOR_EVER = datetime.max.replace(tzinfo=UTC)

_IN_PROGRESS = TaskStatus.IN_PROGRESS  # Python 3.11 takes longer to look up an enum's member than to compare it
_RANK = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What admission looks at beside the tasks: slots, and why there is no room at all, if so.

    `day` is what all tasks together may cost in a day (UTC), `turn_usd` what is set aside for each running turn of it.
    """

    places: int = 1
    pressure: str | None = None
    busy: str | None = None
    """Why nothing more may begin, though what is at work goes on."""
    draining: bool = False
    paused_by: str | None = None
    """Who had everything stand still, what is handed in meanwhile too."""
    day: Caps = NO_CAPS
    turn_usd: float = 0.0
    limit_margin: float = 30.0


class LiveTasks(tuple[Task, ...]):  # noqa: SLOT001 - what was found out is kept in it
    """The tasks at one moment, and groups of them; each group is found once, for every question about these tasks.

    One change makes all groups be found anew, so what is asked of each task is written out here.
    """

    @cached_property
    def running(self) -> tuple[Task, ...]:
        """Those that hold a slot."""
        return tuple([task for task in self if task.status is _IN_PROGRESS and task.agent.status not in PAUSED])

    @cached_property
    def paused(self) -> tuple[Task, ...]:
        """Those that are paused, whatever for."""
        return tuple([task for task in self if task.agent.status in PAUSED])

    @cached_property
    def held(self) -> tuple[Task, ...]:
        """Those that are paused until the account or a budget allows another turn."""
        return tuple([task for task in self.paused if task.agent.blocked_by in HOLDS])

    @cached_property
    def queue(self) -> tuple[Task, ...]:
        """Those that want a slot, in the order in which they get one: begun ones, then by priority and age."""
        return tuple(sorted([task for task in self if task.wants_slot], key=_turn_in_queue))

    @cached_property
    def ahead(self) -> Mapping[str, int]:
        """How many tasks are ahead of each task in the queue, by its id."""
        return {task.id: position for position, task in enumerate(self.queue)}


def _turn_in_queue(task: Task) -> tuple[object, ...]:
    begun_later = task.status is TaskStatus.PENDING
    return begun_later, _RANK[task.schedule.priority], task.timing.created_at, task.id


@dataclass(frozen=True, kw_only=True)
class SchedulerSnapshot:
    """All there is to see at one moment: the tasks at work, the status of those that have ended, the room, the time.

    `windows` is what is known of the account's usage, `trouble` why it cannot be used at all, `ended_today` what tasks
    that have ended cost today; `model_of` tells the model that a task would use next.
    """

    tasks: LiveTasks
    ended: Mapping[str, TaskStatus]
    room: Capacity
    now: datetime
    windows: Windows = field(default_factory=dict)
    ended_today: Spending = NOTHING_SPENT
    trouble: str | None = None
    model_of: Callable[[Task], str] = lambda _: ""

    @cached_property
    def limited(self) -> tuple[Task, ...]:
        """The tasks that wait for a person's word, or for a usage limit whose end nobody told."""
        return tuple([task for task in self.tasks.held if task.waits_for_word or _waits_for_unknown_end(task, self)])


def tasks_to_admit(scene: SchedulerSnapshot) -> list[str]:
    """The ids of the tasks that may start or go on now, first ones first."""
    room = scene.room
    free = places(scene) - len(scene.tasks.running)
    if room.pressure or room.draining or free <= 0:
        return []
    chosen: list[str] = []
    refused: dict[tuple[object, ...], str | None] = {}
    for task in scene.tasks.queue:
        if len(chosen) >= free:
            break
        alike = (len(chosen), scene.model_of(task), task.next_action in WITHOUT_AGENT, task.status)
        if alike not in refused:
            refused[alike] = block_reason(task, scene, len(chosen))
        if refused[alike] is None and _may_begin(task, scene):
            chosen.append(task.id)
    return chosen


def places(scene: SchedulerSnapshot) -> int:
    """How many tasks may be at work at once; half of them while a usage window is nearly used up."""
    slow = nearly_used_up(scene.windows, scene.now)
    return max(1, scene.room.places // 2) if slow else scene.room.places


def block_reason(task: Task, scene: SchedulerSnapshot, more: int = 0) -> str | None:
    """Why a task may not start or go on though a slot is free, in words; `more` are about to start besides."""
    if scene.room.busy and task.status is TaskStatus.PENDING:
        return scene.room.busy
    if task.next_action in WITHOUT_AGENT:
        return None
    refusal = account_refusal(task, scene)
    return refusal[1] if refusal else day_used_up(scene, more)


def account_refusal(task: Task, scene: SchedulerSnapshot) -> tuple[PauseReason, str] | None:
    """Return why the account allows a task no turn: what the task waits for, and the reason in words."""
    if scene.trouble:
        return PauseReason.SERVICE, scene.trouble
    limit = active_limit_before(task, scene)
    if limit is None:
        return None
    end = f"lasts until {limit.until:%Y-%m-%d %H:%M:%S} UTC" if limit.until else "is over when a person says so"
    return PauseReason.RATE_LIMIT, f"the account's usage limit ({limit.window}) {end}"


def allowance_for(task: Task, scene: SchedulerSnapshot) -> Allowance:
    """Return what the account and the day leave a task, whatever its present turn turns out to have cost."""
    if scene.room.day == NO_CAPS:
        return Allowance(refusal=account_refusal(task, scene))
    others = replace(scene, tasks=LiveTasks(other for other in scene.tasks if other.id != task.id))
    spent = spent_today(others) + _reserved(others)
    return Allowance(refusal=account_refusal(task, scene), day=scene.room.day, spent_by_others=spent)


def active_limit_before(task: Task, scene: SchedulerSnapshot) -> ActiveLimit | None:
    """The usage limit, if any, that keeps a task from beginning a turn: told by the CLI, or met by another task."""
    model = scene.model_of(task)
    reported = active_limits(scene.windows, scene.now, scene.room.limit_margin, model) if scene.windows else ()
    met = account_limit(scene, model) if scene.limited else None
    if met is not None and met.id != task.id:
        reported = (*reported, ActiveLimit(window=f"met by {met.id}", until=met.retry_at))
    return max(reported, key=lambda limit: limit.until or FOR_EVER, default=None)


def account_limit(scene: SchedulerSnapshot, model: str | None = None) -> Task | None:
    """The task that waits longest for a person's word, or for a usage limit whose end nobody told.

    Others do not go on before it. Only those that concern the model count, if one is given.
    """
    waiting = [
        task for task in scene.limited if model is None or applies_to(task.agent.setbacks.limit_window or "", model)
    ]
    return max(waiting, key=lambda task: task.retry_at or FOR_EVER, default=None)


def _waits_for_unknown_end(task: Task, scene: SchedulerSnapshot) -> bool:
    """Whether it met a usage limit itself: one that is only held by a limit may wait for a retry of its own."""
    has_met_limit = (
        task.is_paused and task.agent.blocked_by is PauseReason.RATE_LIMIT and task.agent.setbacks.limit_waits
    )
    is_to_come = task.retry_at is not None and task.retry_at > scene.now
    return bool(has_met_limit) and is_to_come and not is_known(scene.windows, task.agent.setbacks.limit_window)


def tasks_at_limit(scene: SchedulerSnapshot, window: str | None) -> list[str]:
    """The ids of the tasks that stand still since they met a usage limit themselves: in one window, or in any."""
    return [
        task.id
        for task in scene.tasks
        if task.agent.blocked_by is PauseReason.RATE_LIMIT and task.is_paused and task.agent.setbacks.limit_waits
        if window in (None, task.agent.setbacks.limit_window or NAMELESS)
    ]


def spent_today(scene: SchedulerSnapshot) -> Spending:
    """What all tasks have used today (UTC)."""
    day = f"{scene.now:%Y-%m-%d}"
    return sum((task.spending.by_day[day] for task in scene.tasks if day in task.spending.by_day), scene.ended_today)


def day_used_up(scene: SchedulerSnapshot, more: int = 0) -> str | None:
    """Why nothing may be spent any more today, in words; what turns under way may still cost is counted as spent."""
    if scene.room.day == NO_CAPS:
        return None
    over = reached_cap(spent_today(scene) + _reserved(scene, more), scene.room.day)
    return f"the day's budget is used up: {over}" if over else None


def _reserved(scene: SchedulerSnapshot, more: int = 0) -> Spending:
    """Return what is set aside for the turns under way, and for `more` that are about to begin."""
    running = sum(task.agent.turn.deadline is not None for task in scene.tasks.running) + more
    return Spending(usd=scene.room.turn_usd * running)


def turns_to_interrupt(scene: SchedulerSnapshot) -> Iterator[tuple[str, int, str]]:
    """The turns that have told of so much meanwhile that the day's budget is used up: task, turn, the reason in words.

    How many turns there are does not change by ending one.
    """
    if scene.room.day == NO_CAPS:
        return
    running = [task for task in scene.tasks.running if task.next_action is NextAction.TURN and task.agent.turn.tokens]
    since = [task.agent.turn.active_since or scene.now for task in running]
    seconds = sum((scene.now - one).total_seconds() for one in since)
    meanwhile = Spending(tokens=sum(task.agent.turn.tokens for task in running), seconds=seconds)
    over = reached_cap(spent_today(scene) + meanwhile, replace(scene.room.day, turns=None))
    if over:
        yield from ((task.id, task.agent.turn.number, f"the day's budget is used up: {over}") for task in running)


def tasks_to_pause(scene: SchedulerSnapshot) -> Iterator[tuple[str, PauseReason, str]]:
    """The tasks between two turns that must not begin the next, what for, and the reason in words."""
    for task in scene.tasks.running:
        if task.agent.turn.deadline is None and task.next_action in BETWEEN_TURNS:
            hold = held_before_turn(task, scene)
            if hold is not None:
                yield task.id, *hold


def held_before_turn(task: Task, scene: SchedulerSnapshot) -> tuple[PauseReason, str] | None:
    """Return what a task has to wait for before it begins a turn, and the reason in words; None if it may begin."""
    reason = block_reason(task, scene)
    if reason is None:
        return None
    return account_refusal(task, scene) or (PauseReason.BUDGET, reason)


def task_to_notify(scene: SchedulerSnapshot) -> str | None:
    """The first task that the account's trouble keeps from going on; people are told by it."""
    standing = (task for task in scene.tasks.paused if task.retry_at is None)
    held = (task for task in standing if task.agent.blocked_by is PauseReason.SERVICE)
    waiting = (task for task in scene.tasks.queue if not blockers(task, scene) and block_reason(task, scene))
    return next((task.id for task in (*held, *waiting)), None)


def tasks_to_resume(scene: SchedulerSnapshot) -> Iterator[tuple[str, PauseReason]]:
    """The tasks that were held so, and need not be any more."""
    for task in scene.tasks.held:
        if task.agent.blocked_by is PauseReason.RATE_LIMIT and not task.agent.setbacks.limit_waits:
            if active_limit_before(task, scene) is None:
                yield task.id, PauseReason.RATE_LIMIT
        elif task.agent.blocked_by is PauseReason.SERVICE and not task.agent.setbacks.limit_waits:
            if task.retry_at is None and scene.trouble is None:
                yield task.id, PauseReason.SERVICE
        elif task.agent.blocked_by is PauseReason.BUDGET and cap_reached(task) is None and day_used_up(scene) is None:
            yield task.id, PauseReason.BUDGET


def waiting_queue(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that want a slot, in the order in which they get one."""
    return list(LiveTasks(tasks).queue)


def blockers(task: Task, scene: SchedulerSnapshot) -> tuple[str, ...]:
    """What keeps a task from starting even if a slot were free: its time, and the tasks it comes after."""
    if _may_begin(task, scene):
        return ()
    status = {**{other.id: other.status for other in scene.tasks}, **scene.ended}
    waiting = tuple(
        f"it comes after {other}, which is {status.get(other, 'not finished')}" for other in _awaited(task, scene)
    )
    return (
        (f"it starts at {task.schedule.start_at:%Y-%m-%d %H:%M} UTC", *waiting) if _is_early(task, scene) else waiting
    )


def _may_begin(task: Task, scene: SchedulerSnapshot) -> bool:
    return task.status is not TaskStatus.PENDING or not (_is_early(task, scene) or _awaited(task, scene))


def _is_early(task: Task, scene: SchedulerSnapshot) -> bool:
    return task.schedule.start_at is not None and scene.now < task.schedule.start_at


def _awaited(task: Task, scene: SchedulerSnapshot) -> list[str]:
    return [other for other in task.schedule.after if scene.ended.get(other) is not TaskStatus.COMPLETED]
