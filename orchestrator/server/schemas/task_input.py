"""Schemas of what is sent about tasks: submissions, repositories, changes, and which tasks a list holds."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from orchestrator.core.task.checks import MOST_CHECKS
from orchestrator.core.task.task import Priority, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.access.verbs import MOST_NAMES, Verb
from orchestrator.daemon.sources.state import SourceState
from orchestrator.server.schemas.base import Instant, RequestBody, Utf8, View, without_surrogates

MOST_FILES = 10
"""How many files may come with a submission."""
RELATIVE = "relative_path"
"""The type of the error about a path that is relative."""
LONGEST_SEARCH = 200
"""Characters of a text that tasks are searched for."""


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise PydanticCustomError(RELATIVE, "is relative, but the daemon does not know to what; give an absolute path")
    without_surrogates(str(path))
    return path


AbsolutePath = Annotated[
    Path,
    AfterValidator(_absolute),
    WithJsonSchema({"type": "string", "format": "path", "pattern": "^/", "description": "An absolute path."}),
]
Moment = Instant


class TicketsBody(RequestBody):
    """Open issues of a repository `owner/name` on GitHub: with all of these labels, or that a search finds."""

    project: Utf8
    labels: tuple[Utf8, ...] = Field(default=(), max_length=MOST_FILES)
    query: Utf8 = ""


class SubmissionBody(RequestBody):
    """A ticket, or the name of one on a tracker; `repo` is an absolute path, `checks` maps names to commands.

    Where pipeline, type, priority or autonomy are left out, the ticket decides; on_blocked then follows from the
    autonomy, auto_merge from the settings. `at` has a time zone; `again` allows a second task of a live ticket. With
    `no_git` the folder `repo` has no repository, and the result is brought back to it. `files` are those that the
    pipeline takes, by name; `tickets` become its list of issues.
    """

    text: str
    repo: AbsolutePath
    title: Utf8 = ""
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    ticket: Utf8 | None = None
    base: Utf8 | None = None
    priority: Priority | None = None
    after: tuple[Utf8, ...] = ()
    at: Moment | None = None
    checks: Mapping[Utf8, Utf8] = Field(default_factory=dict, max_length=MOST_CHECKS)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    draft: bool = False
    again: bool = False
    no_git: bool = False
    files: Mapping[Utf8, Utf8] = Field(default_factory=dict, max_length=MOST_FILES)
    tickets: TicketsBody | None = None


class ImportBody(RequestBody):
    """A workspace of the original system, as an absolute path, and the branch that its own was begun from."""

    folder: AbsolutePath
    base: Utf8 | None = None


_CURSOR = re.compile(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z_[A-Za-z0-9][A-Za-z0-9_.-]*$")


def _given_before(cursor: str) -> str:
    if not _CURSOR.fullmatch(cursor):
        raise ValueError("is not a cursor; give the nextCursor of the page before, and none for the first page")
    return cursor


Cursor = Annotated[str, AfterValidator(_given_before), WithJsonSchema({"type": "string", "pattern": _CURSOR.pattern})]


class TaskFilter(View):
    """Which tasks to list: those that fit everything that is given; `all` includes archived ones.

    Each word of `text` has to occur in the title, the ticket's key or the id. `parent` is the id of a task whose
    children are meant.
    """

    model_config = ConfigDict(extra="forbid")

    text: Utf8 = Field(default="", max_length=LONGEST_SEARCH)
    status: tuple[TaskStatus, ...] = ()
    repo: Path | None = None
    pipeline: Utf8 | None = None
    stage: Utf8 | None = None
    ticket: Utf8 | None = None
    parent: Utf8 | None = None
    all: bool = False
    limit: int = Field(default=50, ge=1, le=1000)
    cursor: Cursor | None = None


class CapsBody(RequestBody):
    """New caps; null removes one, and those that are not named stay."""

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class ChangeBody(RequestBody):
    """What to change of a task; everything but caps and priority only while it is a draft. What is null stays."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    caps: CapsBody | None = None
    priority: Priority | None = None
    title: Annotated[Utf8, Field(min_length=1)] | None = None
    text: Annotated[str, Field(min_length=1)] | None = None
    pipeline: Utf8 | None = None
    type: TicketType | None = None
    base: Utf8 | None = None
    after: tuple[Utf8, ...] | None = None
    at: Moment | None = None
    checks: Annotated[Mapping[Utf8, Utf8], Field(max_length=MOST_CHECKS)] | None = None
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("give caps, priority, or a field of a draft")
        return self

    @property
    def draft_changes(self) -> dict[str, Any]:
        """What only a draft allows, by the names of a submission's fields."""
        other = set(type(self).model_fields) - {"caps", "priority"}
        return {name: value for name in sorted(other) if (value := getattr(self, name)) is not None}


class BatchBody(RequestBody):
    """What to do with several tasks; `priority` and `caps` are the new ones, of the verb `change`.

    With `force`, the verb `delete` deletes work too that exists nowhere else.
    """

    verb: Verb
    tasks: tuple[Utf8, ...] = Field(min_length=1, max_length=MOST_NAMES)
    priority: Priority | None = None
    caps: CapsBody | None = None
    force: bool = False


class SourceBody(RequestBody):
    """Where a repository is: https, ssh, or `git@host:path`, without a password."""

    address: Utf8 = Field(min_length=1, max_length=1000)


class SourceView(View):
    """The daemon's copy of a repository elsewhere; `size` in bytes, `path` is what a submission names as `repo`."""

    address: str
    path: str
    state: SourceState
    size: int
    since: datetime
