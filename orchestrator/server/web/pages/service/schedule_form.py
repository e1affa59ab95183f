"""What the form of a schedule sends, and the schedule that it stands for."""

from hashlib import sha256
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.schedule.recurring import Missed, Overlap
from orchestrator.daemon.schedules.records import ScheduledWork, TaskSchedule
from orchestrator.daemon.schedules.service import NewSchedule
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.routes.intake.schedules import wanted_schedule
from orchestrator.server.schemas.base import Redact
from orchestrator.server.schemas.intake.schedules import ScheduleBody, ScheduleChangeBody
from orchestrator.server.web.editing.check_lines import check_lines
from orchestrator.server.web.editing.masks import MASKED, adds_mask, as_line, as_sent
from orchestrator.server.web.submission_form import (
    Unfit,
    changed_named_checks,
    errors_by_field,
    named_checks,
    number_in,
)

WORDS = ("text", "title", "repo", "base")
"""Fields that are shown with their secrets masked; the checks are as well, each by itself."""
SHOWN = frozenset({*WORDS, "name", "line", "zone", "pipeline", "type", "priority", "autonomy", "usd", "checks"})
"""Fields beside which it is said what is wrong with them."""
OPTIONS = ("pipeline", "type", "base", "priority", "autonomy", "usd")
"""Fields that the ticket or the settings decide where they are left empty."""

B = TypeVar("B", ScheduleBody, ScheduleChangeBody)
Typed = Annotated[str, AfterValidator(as_sent), Field(max_length=LARGEST_TEXT)]
Line = Annotated[str, AfterValidator(str.strip), Field(max_length=4096)]


class ScheduleForm(BaseModel):
    """What somebody typed into the form, as it was typed.

    `key` is of this form alone, `seen` of the state of the schedule that it shows.
    """

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
    seen: str = Field(default="", max_length=100)

    def wanted(self) -> NewSchedule:
        """Return the schedule that is meant. Raises Unfit."""
        values = self._values() | {"checks": named_checks(self.checks)}
        return wanted_schedule(_validated(ScheduleBody, values))

    def changes(self, schedule: TaskSchedule, redact: Redact) -> dict[str, Any]:
        """Return what somebody changed, by the names of fields. Raises Unfit.

        What the form shows as it is stored stays, secrets too that it shows masked; so does what it does not have.
        """
        shown, values = form_of(schedule, redact), self._values()
        names = [name for name in CHANGED if getattr(self, name) != getattr(shown, name)]
        for name in WORDS:
            if name in names and adds_mask(getattr(self, name), getattr(schedule.work, name) or ""):
                raise Unfit({name: MASKED})
        given = {name: values[name] for name in names}
        if "checks" in given:
            given["checks"] = changed_named_checks(self.checks, schedule.work.checks, redact)
        return _validated(ScheduleChangeBody, given).changes if given else {}

    def _values(self) -> dict[str, Any]:
        """Return the fields of a schedule, None where the ticket or the settings decide."""
        values: dict[str, Any] = self.model_dump(exclude={"key", "seen"})
        return values | {name: values[name] or None for name in OPTIONS} | {"usd": number_in(self.usd)}


CHANGED = tuple(name for name in ScheduleForm.model_fields if name not in {"name", "key", "seen"})
"""Fields of the form that changes a schedule."""


def form_of(schedule: TaskSchedule, redact: Redact) -> ScheduleForm:
    """Return the form in which somebody would have typed a schedule, with its secrets masked.

    Its `seen` tells one state of what is shown from another.
    """
    work: ScheduledWork = schedule.work
    options = {name: str(value) for name in OPTIONS if (value := getattr(work, name)) is not None}
    lines = {name: as_line(redact(getattr(work, name) or "")) for name in WORDS if name != "text"}
    form = ScheduleForm(
        **options | lines,
        name=schedule.id,
        line=schedule.line,
        zone=schedule.zone,
        overlap=schedule.overlap,
        missed=schedule.missed,
        text=as_sent(redact(work.text)),
        checks=check_lines(work.checks, redact),
    )
    return form.model_copy(update={"seen": sha256(form.model_dump_json().encode()).hexdigest()[:32]})


def _validated(kind: type[B], values: dict[str, Any]) -> B:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise Unfit(errors_by_field(error, SHOWN)) from error
