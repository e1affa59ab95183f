"""What the tools take: their input schemas are made of these."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from orchestrator.core.task.checks import MOST_CHECKS
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import LONGEST_ANSWER
from orchestrator.server.schemas.base import Utf8, View
from orchestrator.server.schemas.task_input import Moment

TaskName = Annotated[str, Field(description="A task's id, the beginning of its id, or its ticket's key.")]
RequestName = Annotated[
    str, Field(description="The id of what is asked, TASK.NUMBER, as `show` and `waiting` list it.", max_length=200)
]
Digest = Annotated[
    str | None,
    Field(
        description="The digest of what was shown: the answer is refused if something else is asked now.",
        max_length=64,
    ),
]


class Arguments(View):
    """What a tool takes; nothing else may be given."""

    model_config = ConfigDict(extra="forbid")


class NoArguments(Arguments):
    """Of a tool that takes none."""


class OneTask(Arguments):
    """Which task."""

    task: TaskName


class TaskListing(Arguments):
    """Which tasks to list."""

    status: tuple[TaskStatus, ...] = Field(default=(), description="Only tasks of these statuses; none means any.")
    repo: Path | None = Field(default=None, description="Only tasks of the repository at this absolute path.")
    archived: bool = Field(default=False, description="Whether to list archived tasks too.")
    limit: int = Field(default=20, ge=1, le=100)
    cursor: str | None = Field(default=None, description="The nextCursor of the page before.", max_length=300)


class Ticket(Arguments):
    """What is wanted, and where."""

    text: str = Field(
        description="What is wanted, as a person would write it for a colleague; or an issue on a tracker, by its "
        "address or key.",
        min_length=1,
    )
    repo: Path = Field(description="The absolute path of the git repository on the daemon's machine.")
    title: Utf8 = Field(default="", description="One line; without it, the text's first line.")
    pipeline: Utf8 | None = Field(default=None, description="The name of a pipeline; without it, the default one.")
    base: Utf8 | None = Field(default=None, description="The branch that the work begins at.")
    checks: Mapping[Utf8, Utf8] = Field(
        default_factory=dict,
        max_length=MOST_CHECKS,
        description="Shell commands by name that must pass, such as {'test': 'pytest -q'}.",
    )
    after: tuple[Utf8, ...] = Field(default=(), description="Tasks that must be completed first.")
    at: Moment | None = Field(default=None, description="When to start, with a time zone.")
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="The most that it may cost, in US dollars."
    )
    interactive: bool = Field(default=False, description="Whether its agents may ask a person.")
    draft: bool = Field(default=False, description="Whether it waits as a draft until a person submits it.")
    key: str | None = Field(
        default=None,
        max_length=255,
        description="Any text of your own, new for each ticket: submitted again with the same key, it is one task.",
    )


class QuestionAnswer(Arguments):
    """The answer to a question."""

    request: RequestName
    answer: Utf8 = Field(description="One of the options, if there are any; else any text.", max_length=LONGEST_ANSWER)
    digest: Digest = None


class Approval(Arguments):
    """What is approved."""

    request: RequestName
    digest: Digest = None


class Changes(Arguments):
    """What has to be different."""

    request: RequestName
    text: Utf8 = Field(description="What has to change before the task continues.", max_length=LONGEST_ANSWER)
    digest: Digest = None


class Stretch(Arguments):
    """Which part of which agent's transcript."""

    task: TaskName
    attempt: int | None = Field(default=None, ge=1, description="Which of the task's agents; without it, the last.")
    offset: int | None = Field(
        default=None,
        ge=0,
        lt=2**63,
        description="Where to begin: 0 for the beginning, or the nextOffset of the part before; without it, the end.",
    )
    entries: int = Field(default=40, ge=1, le=200, description="The most entries.")
