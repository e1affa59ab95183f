"""What schedules put on record: times that a look at the clock finds, what was not submitted, and their names."""

from dataclasses import replace
from datetime import datetime

import structlog

from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.recurring import DueTimes, RunResult
from orchestrator.daemon.schedules.records import PendingRun, ScheduledRun, TaskSchedule
from orchestrator.formats.codec import stamp

log = structlog.get_logger()


def with_times(schedule: TaskSchedule, found: DueTimes, now: datetime) -> TaskSchedule:
    """Return the schedule with the times handled that a look at the clock found: missed ones on record, one pending."""
    if found.missed:
        reason = "the daemon was down, the machine asleep, or its clock was put forward"
        count, due = len(found.missed), found.missed[-1]
        log.warning("schedule_missed", schedule=schedule.id, due=stamp(due), count=count)
        missed = ScheduledRun(due=due, at=now, result=RunResult.MISSED, reason=reason, count=count)
        schedule = schedule.with_run(missed)
    reason = "made up for a time that was missed" if found.is_late else ""
    pending = PendingRun(due=found.due, since=now, reason=reason) if found.due else None
    return replace(schedule, handled=found.until, pending=pending)


def not_submitted(schedule: TaskSchedule, run: ScheduledRun) -> Sentence:
    """Return what was not submitted, for people."""
    times = "1 run was" if run.count == 1 else "%(count)s runs were"
    return Sentence(
        f"schedule %(name)s: {times} {run.result.value}, the last at %(due)s: %(reason)s",
        {"name": schedule.id, "count": run.count, "due": stamp(run.due), "reason": run.reason},
    )


def free_name(title: str, known: set[str]) -> str:
    """Return a name after a title that no schedule has: its first letters and digits."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in title.lower()).split()
    base = "-".join(words)[:32].strip("-") or "schedule"
    numbers = (base, *(f"{base}-{number}" for number in range(2, len(known) + 3)))
    return next(name for name in numbers if name not in known)
