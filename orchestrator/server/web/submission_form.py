"""What the forms for new tasks and drafts send, and the submission that it stands for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.datastructures import UploadFile

from orchestrator.daemon.task_factory import Submission
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.problems import HttpProblem
from orchestrator.server.schemas.base import Redact
from orchestrator.server.schemas.task_input import RELATIVE, SubmissionBody
from orchestrator.server.web.editing.check_lines import changed_checks, check_lines, typed_checks
from orchestrator.server.web.editing.masks import as_line, as_sent

MOST_FIELDS = 40
OPTIONS = ("pipeline", "type", "ticket", "base", "priority", "autonomy", "usd")
"""Fields that the ticket or the settings decide where they are left empty."""
SHOWN = frozenset({*OPTIONS, "text", "reference", "title", "repo", "at", "after", "checks"})
"""Fields beside which it is said what is wrong with them."""
NO_BUDGET = "a budget is a number above 0, such as 5.00"
NO_NAME = "a name has small letters a to z, digits and dashes, at most 40, such as remove-dead-code"
NO_REPOSITORY = "give the repository's absolute path, such as /home/ada/textkit"
NO_TEXT = "give a text, a file, or the ticket's key or address"


class Unfit(ValueError):
    """What was typed cannot be a submission; `errors` says why, by the name of the field, `form` has what was typed."""

    def __init__(self, errors: Mapping[str, str], form: "Filled | None" = None) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors, self.form = errors, form


class Filled(BaseModel):
    """What somebody typed into the form, as it was typed.

    `at` is in the reader's zone and `instant` the same time as a script knows it; without one, `at` is in UTC. `checks`
    has a NAME=COMMAND in each line, and a command's further lines indented; `after` has the names of tasks. `key` is of
    this form alone, `seq` the number of the draft's decision that the form shows.
    """

    model_config = ConfigDict(frozen=True)

    text: str = ""
    reference: str = ""
    title: str = ""
    repo: str = ""
    pipeline: str = ""
    type: str = ""
    ticket: str = ""
    base: str = ""
    priority: str = ""
    autonomy: str = ""
    usd: str = ""
    at: str = ""
    instant: str = ""
    after: str = ""
    checks: str = ""
    draft: bool = False
    again: bool = False
    no_git: bool = False
    key: str = Field(default="", max_length=100)
    seq: int = 0
    then: str = Field(default="", max_length=20)

    def body(self, *, needs_text: bool = True) -> SubmissionBody:
        """Return the submission. Raises Unfit."""
        text, reference = self.text, self.reference.strip()
        if text.strip() and reference:
            raise Unfit({"reference": "give either a text or the name of a ticket, not both"})
        if needs_text and not text.strip() and not reference:
            raise Unfit({"text": NO_TEXT})
        options = {name: getattr(self, name).strip() or None for name in OPTIONS}
        values = {
            **options,
            "text": reference or text,
            "title": self.title.strip(),
            "repo": self.repo.strip(),
            "after": tuple(self.after.replace(",", " ").split()),
            "at": self.start,
            "checks": named_checks(self.checks),
            "draft": self.draft,
            "again": self.again,
            "no_git": self.no_git,
            "usd": number_in(self.usd),
        }
        try:
            return SubmissionBody.model_validate(values)
        except ValidationError as error:
            raise Unfit(errors_by_field(error)) from error

    @property
    def start(self) -> str | None:
        """The earliest start, with its zone, if one was given."""
        local = self.at.strip()
        return (self.instant.strip() or f"{local}Z") if local else None


def named_checks(text: str) -> dict[str, str]:
    """Return the command of each check by its name. Raises Unfit."""
    try:
        return typed_checks(text)
    except ValueError as error:
        raise Unfit({"checks": str(error)}) from error


def changed_named_checks(text: str, stored: Mapping[str, str], redact: Redact) -> dict[str, str]:
    """Return the checks of a form that shows those that are stored, with the secrets of these. Raises Unfit."""
    try:
        return changed_checks(text, stored, redact)
    except ValueError as error:
        raise Unfit({"checks": str(error)}) from error


async def filled(request: Request) -> Filled:
    """Return what a form sent. A file's text stands for a text that was not typed. Raises Unfit."""
    async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=2 * LARGEST_TEXT) as sent:
        values: dict[str, Any] = {name: value for name, value in sent.items() if isinstance(value, str)}
        file = sent.get("file")
        content = await file.read(LARGEST_TEXT + 1) if isinstance(file, UploadFile) and file.filename else b""
    values = {name: value.replace("\r\n", "\n") for name, value in values.items() if value}
    try:
        form = Filled.model_validate(values)
    except ValidationError as error:
        typed = Filled.model_validate({name: values[name] for name in SHOWN if name in values})
        raise Unfit(errors_by_field(error), typed) from error
    return form if form.text.strip() or not content else form.model_copy(update={"text": _text_in(content, form)})


def number_in(text: str) -> float | str | None:
    """Return the number that was typed, None if there was none, and else the text, which is refused as a number."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        return text


def _text_in(content: bytes, form: Filled) -> str:
    """Return the text of a file that came with a form. Raises Unfit."""
    if len(content) > LARGEST_TEXT:
        raise Unfit({"file": "the file is larger than 1 MiB"}, form)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Unfit({"file": "the file is not text in UTF-8"}, form) from None


def typed(submission: Submission, seq: int, redact: Redact) -> Filled:
    """Return the form in which somebody would have typed a submission, with its secrets masked."""
    options: dict[str, Any] = {name: str(value) for name in OPTIONS if (value := getattr(submission, name)) is not None}
    at = submission.at.astimezone(UTC) if submission.at else None
    return Filled(
        **options | {"base": as_line(redact(submission.base or ""))},
        text=as_sent(redact(submission.text)).strip("\n"),
        title=as_line(redact(submission.title)),
        repo=str(submission.repo),
        at=f"{at:%Y-%m-%dT%H:%M}" if at else "",
        instant=f"{at:%Y-%m-%dT%H:%M:%SZ}" if at else "",
        after=" ".join(submission.after),
        checks=check_lines(submission.checks, redact),
        seq=seq,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A form as it is shown again: what was typed, what is wrong with it by field, and the status of the answer."""

    form: Filled
    errors: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


def unfit(form: Filled, error: Unfit) -> Shown:
    """Return the form with what cannot be; as it was typed, if that is known."""
    return Shown(form=error.form or form, errors=error.errors, status=422)


def refused(form: Filled, problem: HttpProblem) -> Shown:
    """Return the form with why the daemon refuses it."""
    return Shown(form=form, errors={"form": problem.detail}, status=problem.status)


def errors_by_field(error: ValidationError, shown: Collection[str] = SHOWN) -> dict[str, str]:
    """Return what is wrong with each field; what is wrong with none that is shown is said of the form."""
    found: dict[str, str] = {}
    for one in error.errors():
        place = str(one["loc"][0]) if one["loc"] else "form"
        name = place if place in shown else "form"
        found.setdefault(name, _said(place, one))
    return found


def _said(place: str, one: ErrorDetails) -> str:
    """Return what is wrong with a field, in words of this form where the schema has none for people."""
    if one["type"] == RELATIVE:
        return NO_REPOSITORY
    if one["type"] == "string_pattern_mismatch" and place == "name":
        return NO_NAME
    if one["type"] == "enum":
        return f"choose {one['ctx']['expected']}"
    return NO_BUDGET if place == "usd" else one["msg"].removeprefix("Value error, ")


def same_moment(one: datetime | None, other: datetime | None) -> bool:
    """Return whether two start times are the same to the minute, which is all that a form shows."""
    if one is None or other is None:
        return one is other
    return abs((one - other).total_seconds()) < 60
