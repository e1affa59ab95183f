"""The shapes of what may be asked of tasks beside being handed in."""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from orchestrator.core.task.task import Priority, TaskStatus
from orchestrator.server.schemas.views import View

_CURSOR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z_[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def _given_before(cursor: str) -> str:
    if not _CURSOR.fullmatch(cursor):
        raise ValueError("is no cursor; a cursor is the nextCursor of the page before, and the first page needs none")
    return cursor


class TaskFilter(View):
    """Which tasks a list shall hold: of these statuses, of this repository; `all` means the archived ones too."""

    model_config = ConfigDict(extra="forbid")

    status: tuple[TaskStatus, ...] = ()
    repo: Path | None = None
    all: bool = False
    limit: int = Field(default=50, ge=1, le=1000)
    cursor: Annotated[str, AfterValidator(_given_before)] | None = None


class CapsBody(View):
    """Caps as they shall be; null takes one away, and those that are not named stay."""

    model_config = ConfigDict(extra="forbid")

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    tokens: Annotated[int, Field(gt=0)] | None = None
    turns: Annotated[int, Field(gt=0)] | None = None
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class ChangeBody(View):
    """What of a task is to be different from now on."""

    model_config = ConfigDict(extra="forbid")

    caps: CapsBody | None = None
    priority: Priority | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.caps is None and self.priority is None:
            raise ValueError("name caps, priority or both")
        return self
