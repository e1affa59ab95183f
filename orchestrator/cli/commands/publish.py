"""`review`, `merge`, `archive`, `delete`: what people ask of a task whose change is out, or that has ended."""

import re
import sys
from typing import Annotated

import typer
from pydantic import BaseModel

from orchestrator.cli.context import Json, TaskName, UsageError, context_of
from orchestrator.cli.output import console, line, note, print_json, status_text
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import Subject
from orchestrator.errors import InvalidTransition, OrchestratorError
from orchestrator.server.client import Client
from orchestrator.server.schemas.task_input import TaskFilter
from orchestrator.server.schemas.tasks import TaskView

_PULL_REQUEST = re.compile(r"#?[0-9]{1,9}|https?://\S+")
"""The number or the address of a pull request; no task and no ticket is called so."""


class NothingToMerge(InvalidTransition):
    """A task has no pull request that waits to be merged."""

    def __init__(self, task: TaskView) -> None:
        super().__init__("merge", task.status, task.stage, task.allowed)
        self.hindrances = task.publication.hindrances

    def __str__(self) -> str:
        found = f"; its pull request could not be merged: {'; '.join(self.hindrances)}" if self.hindrances else ""
        return f"{super().__str__()}{found}"


class NotConfirmed(OrchestratorError):
    """Something that cannot be taken back was not confirmed."""


class Deleted(BaseModel):
    """The task that is no more."""

    deleted: str


def review(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(metavar="TASK|PR", help="A task, or the number or address of its pull request."),
    ],
    json: Json = False,
) -> None:
    """Take up what reviewers have said of a task's pull request, now: the changes are made, pushed and answered."""
    with context_of(context).client() as client:
        found = client.ask(_of_pull_request(client, task) if _PULL_REQUEST.fullmatch(task) else task, "review")
    if json:
        print_json(found)
        return
    console().print(found.id, line(f"is looked at: {found.publication.pr_url}"))
    note(f"what becomes of it: orchestrator show {found.id}")


def merge(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Merge a task's pull request into one commit, if nothing stands against it; what does is told and never bypassed.

    The merge is made by the daemon, which looks once more before it; a refused one waits for you again.
    """
    with context_of(context).client() as client:
        found = client.task(task)
        ask = next((ask for ask in found.waiting if ask.subject is Subject.MERGE), None)
        if ask is None:
            raise NothingToMerge(found)
        client.approve(ask)
        now = client.task(found.id)
    if json:
        print_json(now)
        return
    console().print(now.id, line(f"is to be merged: {now.publication.pr_url}"))
    for hindrance in found.publication.hindrances:
        note(f"when it was looked at last, this stood against it: {hindrance}")


def archive(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Keep an ended task out of the way: lists leave it out, its worktree goes, everything else stays."""
    with context_of(context).client() as client:
        found = client.ask(task, "archive")
    if json:
        print_json(found)
    else:
        console().print(found.id, status_text(found.status))


def delete(
    context: typer.Context,
    task: TaskName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove a draft or an ended task for good, with all its files; its commits stay where they were delivered."""
    with context_of(context).client() as client:
        found = client.task(task)
        if "delete" not in found.allowed:
            raise InvalidTransition("delete", found.status, found.stage, found.allowed)
        if not yes:
            _confirm(found)
        client.delete(found.id)
    if json:
        print_json(Deleted(deleted=found.id))
    else:
        console().print(found.id, "is deleted")


def _of_pull_request(client: Client, name: str) -> str:
    """The id of the task whose pull request that is. Raises UsageError."""
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


def _confirm(task: TaskView) -> None:
    """Ask on the terminal; raises UsageError where there is none, NotConfirmed where the answer is no."""
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to be asked; give --yes to delete it without a question")
    if not typer.confirm(f"delete {task.id} ({line(task.title)}) and all its files, for good?", err=True):
        raise NotConfirmed(f"{task.id} stays as it is")
