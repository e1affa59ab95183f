"""Schemas of schedules: recurring tasks, when they are due, and what became of that."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.core.task.checks import MOST_CHECKS
from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.server.schemas.base import Instant, RequestBody, Utf8, View, Words
from orchestrator.server.schemas.task_input import AbsolutePath

SCHEDULE_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"


class ScheduleBody(RequestBody):
    """When a task is to be submitted, and what: `line` is in the format of crontab, by the clocks of `zone`.

    `zone` is a name of the IANA database, by default the daemon's own; without a name the schedule is named after its
    title. `overlap` says what happens while its last task has not ended, `missed` what follows from times at which the
    daemon was down. The other fields are those of a submission.
    """

    name: Annotated[str, Field(pattern=f"{SCHEDULE_NAME}|^$")] = ""
    line: Annotated[Utf8, Field(max_length=200)]
    zone: Annotated[Utf8, Field(max_length=100)] = ""
    overlap: Overlap = Overlap.REFUSE
    missed: Missed = Missed.TELL
    text: Annotated[Utf8, Field(min_length=1)]
    repo: AbsolutePath
    title: Utf8 = ""
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    base: Utf8 | None = None
    priority: Priority | None = None
    checks: Mapping[Utf8, Utf8] = Field(default_factory=dict, max_length=MOST_CHECKS)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    no_git: bool = False


class ScheduledRunView(View):
    """What became of a time at which a task was due; of `count` times missed together, `due` is the last."""

    due: Instant
    at: Instant
    result: RunResult
    task: str | None
    reason: Words
    count: int


class ScheduleView(View):
    """A schedule: when its next task is due, if it is not paused, and what became of the last times, newest first."""

    name: str
    line: str
    zone: str
    overlap: Overlap
    missed: Missed
    title: Words
    text: Words
    repo: str
    pipeline: str | None
    created_at: Instant
    created_by: str
    paused_by: str | None
    next_at: Instant | None
    runs: tuple[ScheduledRunView, ...]


class ScheduleList(View):
    """Every schedule, by name, with its newest runs."""

    schedules: tuple[ScheduleView, ...]
