"""`tasks`: the list."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from orchestrator.api.bodies import TaskFilter
from orchestrator.api.views import TaskLine
from orchestrator.cli.place import Json, place_of
from orchestrator.cli.screen import ago, console, note, print_json, status_text, table
from orchestrator.core.model import TaskStatus

HEADINGS = ("ID", "STATUS", "STAGE", "DONE", "AGE", "TITLE")


def tasks(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    status: Annotated[list[TaskStatus] | None, typer.Option(help="Only tasks of this status; repeatable.")] = None,
    repo: Annotated[Path | None, typer.Option(help="Only tasks of this repository.")] = None,
    limit: Annotated[int, typer.Option(help="How many, newest first.", min=1, max=1000)] = 50,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every task, archived ones too.")] = False,  # noqa: A002
    json: Json = False,
) -> None:
    """List tasks, newest first: the last fifty that are not archived, unless told otherwise."""
    wanted = TaskFilter(
        status=tuple(status or ()),
        repo=repo and _top(repo.expanduser().resolve()),
        all=all,
        limit=1000 if all else limit,
    )
    with place_of(context).client() as client:
        page = client.tasks(wanted, every=all)
    if json:
        print_json(page)
        return
    for problem in page.unreadable:
        note(f"unreadable: {problem}")
    if page.tasks:
        console().print(table(HEADINGS, [_row(task) for task in page.tasks]))
    else:
        note("no tasks; hand one in with `orchestrator submit`")
    if page.next_cursor:
        note(f"the newest {len(page.tasks)}; --all gives every one")


def _top(folder: Path) -> Path:
    """The top of the working tree around a folder, by which tasks are known; the folder itself where there is none."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder)


def _row(task: TaskLine) -> tuple[Text | str, ...]:
    return (
        task.id,
        status_text(task.status, paused=task.paused, blocked_by=task.blocked_by),
        task.stage,
        "" if task.progress is None else f"{task.progress}%",
        ago(task.created_at),
        task.title,
    )
