"""What changes of a schedule when somebody names some of its fields."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from orchestrator.daemon.schedules.records import ScheduledWork, TaskSchedule

OF_WORK = frozenset(one.name for one in fields(ScheduledWork))


def with_changes(schedule: TaskSchedule, changes: Mapping[str, Any]) -> TaskSchedule:
    """Return the schedule with other values of named fields, its own or those of what it submits; the rest stays."""
    work = replace(schedule.work, **{name: value for name, value in changes.items() if name in OF_WORK})
    own = {name: value for name, value in changes.items() if name not in OF_WORK}
    return replace(schedule, **own, work=work)
