"""Ended tasks as a command names them: one by one, all, or those that ended before a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from orchestrator.cli.context import TASK_HELP, UsageError, complete_task
from orchestrator.cli.times import past_time
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import Client
from orchestrator.server.schemas.task_input import TaskFilter

ENDED = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)

SomeTasks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TASK...", help=f"{TASK_HELP} Several may be given.", show_default=False, autocompletion=complete_task
    ),
]
AllEnded = Annotated[bool, typer.Option("--all-ended", help="All tasks that have ended.")]
OlderThan = Annotated[
    datetime | None,
    typer.Option(metavar="AGE", parser=past_time, help="All tasks that ended before that: 30d, yesterday."),
]


def require_selection(named: Sequence[str] | None, *, all_ended: bool, older_than: datetime | None) -> None:
    """Refuse a command line that names no task, or some and all. Raises UsageError."""
    if named and (all_ended or older_than):
        raise UsageError("name tasks, or give --all-ended or --older-than, not both")
    if not (named or all_ended or older_than):
        raise UsageError("name the tasks, or give --all-ended or --older-than 30d")


def ended_tasks(client: Client, older_than: datetime | None) -> list[str]:
    """Return the ids of the tasks that ended, before a time if one is given, and are not archived."""
    page = client.tasks(TaskFilter(status=ENDED, limit=1000), every=True)
    return [task.id for task in page.tasks if older_than is None or task.updated_at < older_than]
