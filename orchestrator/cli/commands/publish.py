"""`review`, `merge`, `download`, `archive`, `delete`: for tasks whose change is published, or that have ended."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated

import typer
from pydantic import BaseModel

from orchestrator.cli.context import Json, TaskName, UsageError, context_of
from orchestrator.cli.disk.prune import prune_wanted
from orchestrator.cli.disk.selection import AllEnded, OlderThan, SomeTasks, ended_tasks, require_selection
from orchestrator.cli.output import console, line, note, print_json
from orchestrator.cli.tasks.verbs import ask_tasks, print_outcomes, tasks_of
from orchestrator.clock import now
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import Subject
from orchestrator.daemon.access.verbs import Verb
from orchestrator.errors import InvalidTransition, OrchestratorError
from orchestrator.formats.codec import stamp
from orchestrator.server.client import Client
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import TaskView

_PULL_REQUEST = re.compile(r"#?[0-9]{1,9}|https?://\S+")
"""The number or the address of a pull request; no task and no ticket has such a name."""


class NothingToMerge(InvalidTransition):
    """A task has no pull request that waits to be merged."""

    def __init__(self, task: TaskView) -> None:
        super().__init__("merge", task.status, task.stage, task.allowed)
        self.hindrances = task.publication.hindrances

    def __str__(self) -> str:
        found = f"; its pull request could not be merged: {'; '.join(self.hindrances)}" if self.hindrances else ""
        return f"{super().__str__()}{found}"


class NotConfirmed(OrchestratorError):
    """Something that cannot be undone was not confirmed."""


class Deleted(BaseModel):
    """The id of a deleted task."""

    deleted: str


class Downloaded(BaseModel):
    """The task whose archive was downloaded, and where it is."""

    task: str
    file: Path


def review(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(metavar="TASK|PR", help="A task, or the number or address of its pull request."),
    ],
    json: Json = False,
) -> None:
    """Handle new review comments on a task's pull request now: changes are made, pushed, and comments answered."""
    with context_of(context).client() as client:
        found = client.request(_of_pull_request(client, task) if _PULL_REQUEST.fullmatch(task) else task, "review")
    if json:
        print_json(found)
        return
    console().print(found.id, line(f"is being checked for comments: {found.publication.pr_url}"))
    note(f"follow it: orchestrator show {found.id}")


def merge(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Squash and merge a task's pull request. What prevents a merge is shown, and never bypassed.

    The daemon checks once more before it merges; after a refusal the task waits for you again.
    """
    with context_of(context).client() as client:
        found = client.task(task)
        request = next((request for request in found.waiting if request.subject is Subject.MERGE), None)
        if request is None:
            raise NothingToMerge(found)
        client.approve(request)
        now = client.task(found.id)
    if json:
        print_json(now)
        return
    console().print(now.id, line(f"will be merged: {now.publication.pr_url}"))
    for hindrance in found.publication.hindrances:
        note(f"at the last check, this prevented a merge: {hindrance}")


def download(
    context: typer.Context,
    task: TaskName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; default: <id>.zip. - is stdout.")
    ] = None,
    json: Json = False,
) -> None:
    """Download what a task made as a ZIP archive: documents of its stages, and files that its commits changed."""
    with context_of(context).client() as client:
        found = client.task(task)
        if output == Path("-"):
            client.deliverables(found.id, sys.stdout.buffer)
            return
        target = (output or Path(f"{found.id}.zip")).expanduser()
        try:
            with target.open("xb") as file:
                _fill(client, found.id, file, target)
        except FileExistsError:
            raise UsageError(f"{target} exists already; remove it, or give another file with --output") from None
    if json:
        print_json(Downloaded(task=found.id, file=target))
    else:
        console().print(line(str(target)))


def archive(
    context: typer.Context,
    task: SomeTasks = None,
    all_ended: AllEnded = False,
    older_than: OlderThan = None,
    json: Json = False,
) -> int:
    """Archive ended tasks: lists leave them out, their worktrees are removed, everything else stays."""
    if task and not (all_ended or older_than):
        return ask_tasks(context, task, Verb.ARCHIVE, json=json)
    require_selection(task, all_ended=all_ended, older_than=older_than)
    with context_of(context).client() as client:
        names = ended_tasks(client, older_than)
        if not names:
            note("no task is to be archived")
            return 0
        return print_outcomes(client.batch(Verb.ARCHIVE, names), json=json)


def delete(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: SomeTasks = None,
    all_ended: AllEnded = False,
    older_than: OlderThan = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete work too that exists nowhere else.")] = False,
    json: Json = False,
) -> int:
    """Delete drafts or ended tasks with all their files; commits stay where they were delivered.

    A task stays whose work exists nowhere else: commits in no branch of your repository, files that are not committed.
    With --force it goes all the same, if it is named.
    """
    with context_of(context).client() as client:
        if task and not (all_ended or older_than):
            return _delete_named(client, task, yes=yes, force=force, json=json)
        require_selection(task, all_ended=all_ended, older_than=older_than)
        if force:
            raise UsageError("--force deletes work that exists nowhere else, so it needs the names of the tasks")
        before = stamp(older_than or now())
        prune_wanted(client, {"before": before, "kinds": ["tasks"], "tasks": []}, ask=not yes, json=json)
        return 0


def _delete_named(client: Client, names: Sequence[str], *, yes: bool, force: bool, json: bool) -> int:
    if len(names) > 1:
        if not yes:
            _confirm(tasks_of(client, names))
        return print_outcomes(client.batch(Verb.DELETE, names, force=force), json=json)
    found = client.task(names[0])
    if "delete" not in found.allowed:
        raise InvalidTransition("delete", found.status, found.stage, found.allowed)
    if not yes:
        _confirm([found])
    client.delete(found.id, force=force)
    if json:
        print_json(Deleted(deleted=found.id))
    else:
        console().print(found.id, "is deleted")
    return 0


def _fill(client: Client, task: str, file: IO[bytes], target: Path) -> None:
    """Write the archive into a new file, which is removed if that fails."""
    try:
        client.deliverables(task, file)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _of_pull_request(client: Client, name: str) -> str:
    """Return the id of the task with this pull request. Raises UsageError."""
    waiting = client.tasks(TaskFilter(status=(TaskStatus.REVIEW,)), every=True).tasks
    found = [task for task in (client.task(one.id) for one in waiting) if _is_of(task, name)]
    if len(found) == 1:
        return found[0].id
    if found:
        listed = "; ".join(f"{task.id}: {task.publication.pr_url}" for task in found)
        raise UsageError(f"several tasks have a pull request {name}; name the task: {listed}")
    raise UsageError(
        f"no task under review has the pull request {name:.200}; `orchestrator tasks --status review` lists them"
    )


def _is_of(task: TaskView, name: str) -> bool:
    url = (task.publication.pr_url or "").rstrip("/")
    by_address = bool(url) and (name.rstrip("/") == url or name.startswith(f"{url}/"))
    return by_address or name.removeprefix("#") == str(task.publication.number)


def _confirm(tasks: Sequence[TaskView]) -> None:
    """Ask on the terminal. Raises UsageError if there is none, and NotConfirmed if the answer is no."""
    if not sys.stdin.isatty():
        raise UsageError("standard input is no terminal; give --yes to delete without confirmation")
    for task in tasks:
        note(f"{task.id}  {task.status}  {task.title}")
    what = f"{tasks[0].id} and all its files" if len(tasks) == 1 else f"these {len(tasks)} tasks and all their files"
    if not typer.confirm(f"delete {what} permanently?", err=True):
        raise NotConfirmed("nothing was deleted")
