"""Schemas of schedules: recurring tasks, when they are due, and what became of that."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, model_validator

from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.core.task.checks import MOST_CHECKS
from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.server.schemas.base import Instant, RequestBody, Utf8, View, Words
from orchestrator.server.schemas.task_input import AbsolutePath

SCHEDULE_NAME = r"^[a-z0-9][a-z0-9-]{0,39}$"
LEFT_OPEN = frozenset({"pipeline", "type", "base", "priority", "autonomy", "on_blocked", "auto_merge", "usd"})
"""Fields that the ticket and the settings decide where they are null."""

Line = Annotated[Utf8, Field(max_length=200)]
Zone = Annotated[Utf8, Field(max_length=100)]
Text = Annotated[Utf8, Field(min_length=1)]
Commands = Annotated[Mapping[Utf8, Utf8], Field(max_length=MOST_CHECKS)]
Dollars = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ScheduleBody(RequestBody):
    """When a task is to be submitted, and what: `line` is in the format of crontab, by the clocks of `zone`.

    `zone` is a name of the IANA database, by default the daemon's own; without a name the schedule is named after its
    title. `overlap` says what happens while its last task has not ended, `missed` what follows from times at which the
    daemon was down. The other fields are those of a submission.
    """

    name: Annotated[str, Field(pattern=f"{SCHEDULE_NAME}|^$")] = ""
    line: Line
    zone: Zone = ""
    overlap: Overlap = Overlap.REFUSE
    missed: Missed = Missed.TELL
    text: Text
    repo: AbsolutePath
    title: Utf8 = ""
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    base: Utf8 | None = None
    priority: Priority | None = None
    checks: Commands = Field(default_factory=dict)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Dollars | None = None
    no_git: bool = False


class ScheduleChangeBody(RequestBody):
    """What to change of a schedule, as it was added: what is not given stays.

    A null leaves `pipeline`, `type`, `base`, `priority`, `autonomy`, `onBlocked`, `autoMerge` and `usd` to the ticket
    and the settings; of any other field it changes nothing.
    """

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    line: Line | None = None
    zone: Zone | None = None
    overlap: Overlap | None = None
    missed: Missed | None = None
    text: Text | None = None
    repo: AbsolutePath | None = None
    title: Utf8 | None = None
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    base: Utf8 | None = None
    priority: Priority | None = None
    checks: Commands | None = None
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Dollars | None = None
    no_git: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("give a field of the schedule")
        return self

    @property
    def changes(self) -> dict[str, Any]:
        """What changes, by the names of a schedule's fields and of its work."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        found = {name: value for name, value in given.items() if value is not None or name in LEFT_OPEN}
        return found | ({"repo": str(self.repo)} if "repo" in found else {})


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
