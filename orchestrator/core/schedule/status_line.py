"""What goes on, in one line of bounded length: for the service manager, whose status shows it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from orchestrator.core.schedule.admission import SchedulerSnapshot, account_limit, day_used_up
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.usage_limits import active_limits
from orchestrator.formats.person import person_name

LONGEST = 400
"""Characters of the line."""
LONGEST_REASON, MOST_NAMED = 100, 3
"""Characters of one reason, and how many tasks that need a person are named."""


def status_line(snapshot: SchedulerSnapshot, unreadable: Iterable[Task] = ()) -> str:
    """Return how many tasks are active, wait and are paused, what stops them and until when, and who needs a person.

    `unreadable` are the tasks about which nothing can be decided.
    """
    tasks = snapshot.tasks
    paused = sum(task.is_paused and not task.wants_slot for task in tasks)
    counts = f"{len(tasks.running)} active, {len(tasks.queue)} queued, {paused} paused"
    needs = [*(need for task in tasks for need in _needs_of(task)), *(f"{task.id} (unreadable)" for task in unreadable)]
    line = "; ".join([counts, *(_one_line(reason) for reason in _obstacles(snapshot)), *_for_people(needs)])
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _obstacles(snapshot: SchedulerSnapshot) -> Iterator[str]:
    """Yield what keeps tasks from starting or going on."""
    capacity = snapshot.capacity
    if capacity.draining:
        yield "draining"
    if capacity.paused_by is not None:
        yield f"all paused by {person_name(capacity.paused_by)}"
    if capacity.pressure:
        yield capacity.pressure
    if snapshot.trouble is not None:
        yield snapshot.trouble.reason
    yield from _limits(snapshot)
    if used_up := day_used_up(snapshot):
        yield used_up


def _limits(snapshot: SchedulerSnapshot) -> Iterator[str]:
    limits = active_limits(snapshot.windows, snapshot.now, snapshot.capacity.limit_margin) if snapshot.windows else ()
    for limit in limits:
        yield f"usage limit {limit.window}{_until(limit.until, snapshot.now)}"
    if not limits and (waiting := account_limit(snapshot)) is not None:
        yield f"usage limit{_until(waiting.retry_at, snapshot.now)}"


def _until(until: datetime | None, now: datetime) -> str:
    if until is None:
        return " until a person resumes"
    return f" until {until:%H:%M} UTC" if until.date() == now.date() else f" until {until:%Y-%m-%d %H:%M} UTC"


def _needs_of(task: Task) -> Iterator[str]:
    for request in task.pending_requests[:1]:
        yield f"{task.id} ({request.draft.kind})"
    if task.status is TaskStatus.BLOCKED:
        yield f"{task.id} (blocked)"


def _for_people(needs: Sequence[str]) -> Iterator[str]:
    if needs:
        more = f" and {len(needs) - MOST_NAMED} more" if len(needs) > MOST_NAMED else ""
        yield f"{len(needs)} need you: {', '.join(map(_one_line, needs[:MOST_NAMED]))}{more}"


def _one_line(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= LONGEST_REASON else f"{words[: LONGEST_REASON - 1]}…"
