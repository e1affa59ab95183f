"""`pause`, `resume`, `cancel`, `retry`, `drain`, `budget`: control one task, several, or all."""

from collections.abc import Sequence
from typing import Annotated

import orjson
import typer

from orchestrator.cli.context import (
    TASK_HELP,
    Json,
    TaskName,
    TaskNames,
    UsageError,
    complete_task,
    context_of,
    parse_options,
)
from orchestrator.cli.output import budget_of, console, note, print_json, status_text
from orchestrator.cli.tasks.verbs import ask_tasks, print_outcomes, print_task, tasks_of
from orchestrator.core.events.operations import OperationRefused
from orchestrator.core.task.agent import PauseReason
from orchestrator.daemon.access.verbs import Verb
from orchestrator.server.schemas.task_input import CapsBody, ChangeBody
from orchestrator.server.schemas.tasks import ManyView, TasksView, TaskView

SomeOrAll = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TASK...", help=f"{TASK_HELP} Several may be given.", show_default=False, autocompletion=complete_task
    ),
]


def pause(
    context: typer.Context,
    task: SomeOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every task, and those submitted later.")] = False,  # noqa: A002
    json: Json = False,
) -> int:
    """Pause tasks: their processes are frozen where they are, until `resume`."""
    return _ask_some_or_all(context, task or (), Verb.PAUSE, all=all, json=json)


def resume(
    context: typer.Context,
    task: SomeOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every paused task; also ends a drain.")] = False,  # noqa: A002
    now: Annotated[bool, typer.Option("--now", help="Before its start time and outside its run windows, too.")] = False,
    json: Json = False,
) -> int:
    """Resume paused tasks where they stopped, as soon as a slot is free."""
    if now and all:
        raise UsageError("--now lets tasks run outside their hours; name them")
    return _ask_some_or_all(context, task or (), Verb.START if now else Verb.RESUME, all=all, json=json)


def cancel(context: typer.Context, task: TaskNames, json: Json = False) -> int:
    """Cancel tasks: their agents are ended, their folders and branches stay."""
    return ask_tasks(context, task, Verb.CANCEL, json=json)


def retry(context: typer.Context, task: TaskNames, json: Json = False) -> int:
    """Retry the stage of blocked tasks, after you have fixed what blocked them; all retries are reset.

    For a failed task, which cannot go on, a new task is made with the same ticket and options.
    """
    return ask_tasks(context, task, Verb.RETRY, json=json)


def drain(context: typer.Context, json: Json = False) -> None:
    """Start no more tasks and end every agent; their sessions are kept.

    Everything continues when the daemon is restarted, or after `resume --all`.
    """
    _request_all(context, "drain", json=json)


def budget(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskNames,
    usd: Annotated[float | None, typer.Option(help="Dollars in total.", min=0.01)] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens in total.", min=1)] = None,
    turns: Annotated[int | None, typer.Option(help="Turns in total.", min=1)] = None,
    hours: Annotated[float | None, typer.Option(help="Hours of work in total.", min=0.01)] = None,
    json: Json = False,
) -> int:
    """Set what a task may use in total, or show what it has used. A task that waited for a larger budget continues."""
    given = {"usd": usd, "tokens": tokens, "turns": turns, "hours": hours}
    caps = {name: cap for name, cap in given.items() if cap is not None}
    body = ChangeBody(caps=parse_options(CapsBody, caps)) if caps else None
    with context_of(context).client() as client:
        if len(task) == 1:
            _print_budget(client.task(task[0]) if body is None else client.change(task[0], body), json=json)
            return 0
        if body is not None:
            return print_outcomes(client.batch(Verb.CHANGE, task, body.caps), json=json)
        found = tasks_of(client, task)
    if json:
        print_json(TasksView(tasks=tuple(found)))
        return 0
    for one in found:
        _print_budget(one, json=False)
    return 0


def _print_budget(found: TaskView, *, json: bool) -> None:
    if json:
        print_json(found)
        return
    print_task(found, json=False)
    console().print(budget_of(found) or (f"that of {found.parent} counts" if found.parent else "no budget is set"))


def _ask_some_or_all(context: typer.Context, names: Sequence[str], verb: Verb, *, all: bool, json: bool) -> int:  # noqa: A002
    if all == bool(names):
        raise UsageError(f"give a TASK or --all; `orchestrator {verb} --help` shows how it is used")
    if names:
        return ask_tasks(context, names, verb, json=json)
    _request_all(context, verb, json=json)
    return 0


def _request_all(context: typer.Context, action: str, *, json: bool) -> None:
    with context_of(context).client() as client:
        changed: ManyView = client.request_all(action)
    if json:
        print_json(changed)
        return
    for task in changed.tasks:
        if action == "drain" and task.blocked_by is PauseReason.PRESSURE:
            console().print(task.id, "its agent is ended, its session is kept")
            continue
        console().print(task.id, status_text(task.status, paused=task.paused, blocked_by=task.blocked_by))
    if not changed.tasks:
        note("no task had to change")


def transition(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="A stage of its pipeline, such as PLANNING.")],
    force: Annotated[bool, typer.Option("--force", help="Even if guards are not satisfied.")] = False,
    reason: Annotated[str, typer.Option(help="The reason; it is recorded with your name.")] = "",
    json: Json = False,
) -> int:
    """Force a task into a stage. Guards that were not satisfied are shown and recorded.

    A task moves by itself when its guards are satisfied, so this command requires --force.
    """
    if not force or not reason.strip():
        raise UsageError(
            "a task moves by itself when its guards are satisfied; to move it anyway, give --force and --reason"
        )
    with context_of(context).client() as client:
        try:
            moved = client.force(task, stage, reason)
        except OperationRefused as error:
            if json:
                typer.echo(orjson.dumps(error.document, option=orjson.OPT_INDENT_2).decode())
                return 1
            raise
    if json:
        typer.echo(orjson.dumps(moved, option=orjson.OPT_INDENT_2).decode())
        return 0
    console().print(task, "is in", str(moved["new_state"]))
    waived = moved["waived"]
    for missed in waived if isinstance(waived, list) else []:
        note(f"waived: {missed}")
    return 0
