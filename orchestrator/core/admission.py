"""Who may start or go on now: by priority, then by age, within the number of places.

All that one process assumes alone about places is here and in the store, so that many machines could share them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from orchestrator.core.budget import NO_CAPS, NOTHING_SPENT, Caps, Spending, reached
from orchestrator.core.course import cap_reached
from orchestrator.core.limits import NAMELESS, Wall, Windows, concerns, is_told, nearly_used_up, walls
from orchestrator.core.model import BlockedBy, Owed, Priority, Task, TaskStatus

BETWEEN_TURNS = frozenset({Owed.AGENT, Owed.GATE, Owed.RETRY, Owed.STOP})
"""What a task owes whose next turn has not begun."""

WITHOUT_AGENT = frozenset({Owed.DELIVERY, Owed.PUBLISH, Owed.MERGE, Owed.RELEASE})
"""What costs no turn, and so waits for no usage window."""

FOR_EVER = datetime.max.replace(tzinfo=UTC)

_RANK = {Priority.CRITICAL: 0, Priority.HIGH: 1, Priority.NORMAL: 2, Priority.LOW: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What admission looks at beside the tasks: places, and why there is no room at all, if so.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All there is to see at one moment: the tasks at work, the status of those that have ended, the room, the time.

    `windows` is what is known of the account's usage, `trouble` why it cannot be used at all, `ended_today` what tasks
    that have ended cost today; `model_of` tells the model that a task would use next.
    """

    tasks: tuple[Task, ...]
    ended: Mapping[str, TaskStatus]
    room: Room
    now: datetime
    windows: Windows = field(default_factory=dict)
    ended_today: Spending = NOTHING_SPENT
    trouble: str | None = None
    model_of: Callable[[Task], str] = lambda _: ""


def admitted(scene: Scene) -> list[str]:
    """The ids of the tasks that may start or go on now, first ones first."""
    room = scene.room
    free = places(scene) - sum(task.holds_slot for task in scene.tasks)
    if room.pressure or room.draining or free <= 0:
        return []
    chosen: list[str] = []
    refused: dict[tuple[object, ...], str | None] = {}
    for task in queue(scene.tasks):
        if len(chosen) >= free:
            break
        alike = (len(chosen), scene.model_of(task), task.owed in WITHOUT_AGENT, task.status)
        if alike not in refused:
            refused[alike] = withheld(task, scene, len(chosen))
        if refused[alike] is None and _may_begin(task, scene):
            chosen.append(task.id)
    return chosen


def places(scene: Scene) -> int:
    """How many tasks may be at work at once; half of them while a usage window is nearly used up."""
    slow = nearly_used_up(scene.windows, scene.now)
    return max(1, scene.room.places // 2) if slow else scene.room.places


def withheld(task: Task, scene: Scene, more: int = 0) -> str | None:
    """Why a task may not start or go on though there is a place, in words; `more` are about to start besides."""
    if scene.room.busy and task.status is TaskStatus.PENDING:
        return scene.room.busy
    if task.owed in WITHOUT_AGENT:
        return None
    if scene.trouble:
        return scene.trouble
    wall = wall_before(task, scene)
    if wall is not None:
        end = f"lasts until {wall.until:%Y-%m-%d %H:%M:%S} UTC" if wall.until else "is over when a person says so"
        return f"the account's usage limit ({wall.window}) {end}"
    return day_used_up(scene, more)


def wall_before(task: Task, scene: Scene) -> Wall | None:
    """The usage limit, if any, that keeps a task from beginning a turn: told by the CLI, or met by another task."""
    model = scene.model_of(task)
    told = walls(scene.windows, scene.now, scene.room.limit_margin, model)
    met = account_limit(scene, model)
    if met is not None and met.id != task.id:
        told = (*told, Wall(window=f"met by {met.id}", until=met.retry_at))
    return max(told, key=lambda wall: wall.until or FOR_EVER, default=None)


def account_limit(scene: Scene, model: str | None = None) -> Task | None:
    """The task that waits longest for a person's word, or for a usage limit whose end nobody told.

    Others do not go on before it. Only those that concern the model count, if one is given.
    """
    waiting = [
        task
        for task in scene.tasks
        if task.waits_for_word or _waits_for_unknown_end(task, scene)
        if model is None or concerns(task.agent.limit_window or "", model)
    ]
    return max(waiting, key=lambda task: task.retry_at or FOR_EVER, default=None)


def _waits_for_unknown_end(task: Task, scene: Scene) -> bool:
    limited = task.agent.blocked_by is BlockedBy.RATE_LIMIT and task.paused
    is_to_come = task.retry_at is not None and task.retry_at > scene.now
    return limited and is_to_come and not is_told(scene.windows, task.agent.limit_window)


def met_limit(scene: Scene, window: str | None) -> list[str]:
    """The ids of the tasks that stand still since they met a usage limit themselves: in one window, or in any."""
    return [
        task.id
        for task in scene.tasks
        if task.agent.blocked_by is BlockedBy.RATE_LIMIT and task.paused and task.agent.waits
        if window in (None, task.agent.limit_window or NAMELESS)
    ]


def spent_today(scene: Scene) -> Spending:
    """What all tasks have used today (UTC)."""
    day = f"{scene.now:%Y-%m-%d}"
    return sum((task.spent[day] for task in scene.tasks if day in task.spent), scene.ended_today)


def day_used_up(scene: Scene, more: int = 0) -> str | None:
    """Why nothing may be spent any more today, in words; what turns under way may still cost is counted as spent."""
    if scene.room.day == NO_CAPS:
        return None
    running = sum(task.holds_slot and task.agent.turn_deadline is not None for task in scene.tasks) + more
    reserved = Spending(usd=scene.room.turn_usd * running)
    over = reached(spent_today(scene) + reserved, scene.room.day)
    return f"the day's budget is used up: {over}" if over else None


def to_interrupt(scene: Scene) -> Iterator[tuple[str, int, str]]:
    """The turns that have told of so much meanwhile that the day's budget is used up: task, turn, the reason in words.

    How many turns there are does not change by ending one.
    """
    if scene.room.day == NO_CAPS:
        return
    running = [task for task in scene.tasks if task.holds_slot and task.owed is Owed.TURN and task.agent.turn_tokens]
    since = [task.agent.at_work_since or scene.now for task in running]
    seconds = sum((scene.now - one).total_seconds() for one in since)
    meanwhile = Spending(tokens=sum(task.agent.turn_tokens for task in running), seconds=seconds)
    over = reached(spent_today(scene) + meanwhile, replace(scene.room.day, turns=None))
    if over:
        yield from ((task.id, task.agent.turn, f"the day's budget is used up: {over}") for task in running)


def to_hold(scene: Scene) -> Iterator[tuple[str, BlockedBy, str]]:
    """The tasks between two turns that must not begin the next, what for, and the reason in words."""
    for task in scene.tasks:
        if task.holds_slot and task.agent.turn_deadline is None and task.owed in BETWEEN_TURNS:
            hold = held_before_turn(task, scene)
            if hold is not None:
                yield task.id, *hold


def held_before_turn(task: Task, scene: Scene, more: int = 0) -> tuple[BlockedBy, str] | None:
    """What a task is to be held for before it begins a turn, and the reason in words; None if it may begin.

    `more` are about to start besides: -1 if the turn is counted among those under way already.
    """
    reason = withheld(task, scene, more)
    if reason is None:
        return None
    if scene.trouble:
        return BlockedBy.SERVICE, reason
    walled = wall_before(task, scene) is not None
    return BlockedBy.RATE_LIMIT if walled else BlockedBy.BUDGET, reason


def to_tell(scene: Scene) -> str | None:
    """The first task that the account's trouble keeps from going on; people are told by it."""
    standing = (task for task in scene.tasks if task.paused and task.retry_at is None)
    held = (task for task in standing if task.agent.blocked_by is BlockedBy.SERVICE)
    waiting = (task for task in queue(scene.tasks) if not hindrances(task, scene) and withheld(task, scene))
    return next((task.id for task in (*held, *waiting)), None)


def to_let_go(scene: Scene) -> Iterator[tuple[str, BlockedBy]]:
    """The tasks that were held so, and need not be any more."""
    for task in scene.tasks:
        if not task.paused:
            continue
        if task.agent.blocked_by is BlockedBy.RATE_LIMIT and not task.agent.waits:
            if task.retry_at is None and wall_before(task, scene) is None:
                yield task.id, BlockedBy.RATE_LIMIT
        elif task.agent.blocked_by is BlockedBy.SERVICE and not task.agent.waits:
            if task.retry_at is None and scene.trouble is None:
                yield task.id, BlockedBy.SERVICE
        elif task.agent.blocked_by is BlockedBy.BUDGET and cap_reached(task) is None and day_used_up(scene) is None:
            yield task.id, BlockedBy.BUDGET


def queue(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that want a place, in the order in which they get one: begun ones, then by priority and age."""
    return sorted(
        (task for task in tasks if task.wants_slot),
        key=lambda task: (task.status is TaskStatus.PENDING, _RANK[task.priority], task.created_at, task.id),
    )


def hindrances(task: Task, scene: Scene) -> tuple[str, ...]:
    """What keeps a task from starting even if there were a place: its time, and the tasks it comes after."""
    if _may_begin(task, scene):
        return ()
    status = {**{other.id: other.status for other in scene.tasks}, **scene.ended}
    waiting = tuple(
        f"it comes after {other}, which is {status.get(other, 'not finished')}" for other in _awaited(task, scene)
    )
    return (f"it starts at {task.start_at:%Y-%m-%d %H:%M} UTC", *waiting) if _is_early(task, scene) else waiting


def _may_begin(task: Task, scene: Scene) -> bool:
    return task.status is not TaskStatus.PENDING or not (_is_early(task, scene) or _awaited(task, scene))


def _is_early(task: Task, scene: Scene) -> bool:
    return task.start_at is not None and scene.now < task.start_at


def _awaited(task: Task, scene: Scene) -> list[str]:
    return [other for other in task.after if scene.ended.get(other) is not TaskStatus.COMPLETED]
