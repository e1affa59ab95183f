"""Which tasks a list or a board shows, as its address says it, and the schemas of what only these two show."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.inspection.board import MOST_CARDS, Board, Facets, Grouping
from orchestrator.daemon.services.tasks import TaskQuery
from orchestrator.server.rendering import task_lines
from orchestrator.server.schemas.base import Redact, View, without_surrogates
from orchestrator.server.schemas.task_input import LONGEST_SEARCH
from orchestrator.server.schemas.tasks import TaskLine

PAGE = 100
"""Tasks on a page of the list."""
LONGEST_CHOICE = 4096


def _chosen(values: object) -> object:
    """Return the values of a choice without the empty one, which means that nothing was chosen."""
    return [value for value in values if value] if isinstance(values, list) else values


Choice = Annotated[str, AfterValidator(without_surrogates), Field(max_length=LONGEST_CHOICE)]


class Narrowed(BaseModel):
    """What the address of a list or a board says about its tasks; an empty text narrows nothing."""

    model_config = ConfigDict(frozen=True)

    text: Annotated[str, AfterValidator(without_surrogates)] = Field(default="", max_length=LONGEST_SEARCH)
    status: Annotated[tuple[TaskStatus, ...], BeforeValidator(_chosen)] = ()
    repo: Choice = ""
    pipeline: Choice = ""
    stage: Choice = ""
    ticket: Choice = ""
    parent: Choice = ""
    all: bool = False
    by: Grouping = Grouping.STATUS
    cursor: str = Field(default="", max_length=300)

    def query(self, limit: int = PAGE) -> TaskQuery:
        """Return what is asked of the daemon."""
        names = ("pipeline", "stage", "ticket", "parent", "cursor")
        given: dict[str, Any] = {name: getattr(self, name) or None for name in names}
        repo = Path(self.repo) if self.repo else None
        return TaskQuery(**given, repo=repo, text=self.text, status=self.status, all=self.all, limit=limit)

    def address(self, path: str, **changes: object) -> str:
        """Return the address of a list or board of the same tasks, but for what `changes` say."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), **changes}
        return f"{path}?{urlencode({name: value for name, value in values.items() if value}, doseq=True)}"

    @property
    def is_narrow(self) -> bool:
        """Whether something is left out that a plain list has."""
        return bool(self.model_dump(exclude_defaults=True, exclude={"by", "cursor", "all"}))


class ColumnView(View):
    """A column of the board; `more` leads to a list of all its tasks, if there are more than are shown."""

    name: str
    is_status: bool
    count: int
    tasks: tuple[TaskLine, ...]
    more: str


def board_values(board: Board, narrowed: Narrowed, redact: Redact) -> Mapping[str, Any]:
    """Return what the template of the columns shows."""
    columns = []
    for column in board.columns:
        is_status = board.by is Grouping.STATUS
        if is_status:
            choice: dict[str, object] = {"status": column.name}
        elif column.name in {"ended", "elsewhere"}:
            choice = {"pipeline": board.pipeline}
        else:
            choice = {"pipeline": board.pipeline, "stage": column.name}
        lines = task_lines(column.tasks, redact)
        more = narrowed.address("/tasks", by="", **choice) if column.count > len(lines) else ""
        columns.append(ColumnView(name=column.name, is_status=is_status, count=column.count, tasks=lines, more=more))
    return {"columns": columns, "count": board.count, "pipeline": board.pipeline or "", "narrowed": narrowed}


def choices(facets: Facets) -> dict[str, Any]:
    """Return what can be chosen from in the form above a list or a board."""
    return {"facets": facets, "statuses": tuple(TaskStatus), "most": MOST_CARDS}
