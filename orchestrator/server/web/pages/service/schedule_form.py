"""What the form of a schedule sends, and the schedule that it stands for."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.schedule.recurring import Missed, Overlap
from orchestrator.daemon.schedules.records import ScheduledWork, TaskSchedule
from orchestrator.daemon.schedules.service import NewSchedule
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.routes.intake.schedules import wanted_schedule
from orchestrator.server.schemas.base import Redact
from orchestrator.server.schemas.intake.schedules import ScheduleBody
from orchestrator.server.web.submission_form import Unfit, errors_by_field, named_checks

OF_WORK = ("text", "repo", "title", "pipeline", "type", "base", "priority", "checks", "autonomy", "usd")
"""Fields of what is submitted; others, such as what happens after a failure, stay as they are."""
REDACTED = ("text", "title")
"""Fields that are shown with their secrets masked, and are left alone unless somebody changes them."""
SHOWN = frozenset({*OF_WORK, "name", "line", "zone"})
"""Fields beside which it is said what is wrong with them."""
OPTIONS = ("pipeline", "type", "base", "priority", "autonomy", "usd")
"""Fields that the ticket or the settings decide where they are left empty."""

Typed = Annotated[str, AfterValidator(lambda text: text.replace("\r\n", "\n")), Field(max_length=LARGEST_TEXT)]
Line = Annotated[str, AfterValidator(str.strip), Field(max_length=4096)]


class ScheduleForm(BaseModel):
    """What somebody typed into the form, as it was typed. `key` is of this form alone."""

    model_config = ConfigDict(frozen=True)

    name: Line = ""
    line: Line = ""
    zone: Line = ""
    overlap: Overlap = Overlap.REFUSE
    missed: Missed = Missed.TELL
    text: Typed = ""
    repo: Line = ""
    title: Line = ""
    pipeline: Line = ""
    type: Line = ""
    base: Line = ""
    priority: Line = ""
    autonomy: Line = ""
    usd: Line = ""
    checks: Typed = ""
    key: str = Field(default="", max_length=100)

    def wanted(self) -> NewSchedule:
        """Return the schedule that is meant. Raises Unfit."""
        values: dict[str, Any] = self.model_dump(exclude={"key"})
        values |= {name: values[name] or None for name in OPTIONS} | {"checks": dict(named_checks(self.checks))}
        try:
            return wanted_schedule(ScheduleBody.model_validate(values))
        except ValidationError as error:
            raise Unfit(errors_by_field(error, SHOWN)) from error

    def changed(self, schedule: TaskSchedule, redact: Redact) -> NewSchedule:
        """Return what a schedule is to become; what the form does not have, or only masked, stays. Raises Unfit."""
        wanted, shown = self.wanted(), form_of(schedule, redact)
        names = [name for name in OF_WORK if name not in REDACTED or getattr(self, name) != getattr(shown, name)]
        return replace(wanted, work=replace(schedule.work, **{name: getattr(wanted.work, name) for name in names}))


def form_of(schedule: TaskSchedule, redact: Redact) -> ScheduleForm:
    """Return the form in which somebody would have typed a schedule, with its secrets masked."""
    work: ScheduledWork = schedule.work
    options = {name: str(value) for name in OPTIONS if (value := getattr(work, name)) is not None}
    return ScheduleForm(
        **options,
        name=schedule.id,
        line=schedule.line,
        zone=schedule.zone,
        overlap=schedule.overlap,
        missed=schedule.missed,
        text=redact(work.text),
        title=redact(work.title),
        repo=work.repo,
        checks="".join(f"{name}={command}\n" for name, command in work.checks.items()),
    )
