"""`pause`, `resume`, `cancel`, `retry`, `drain`, `budget`: control one task, or all."""

from typing import Annotated

import orjson
import typer

from orchestrator.cli.context import Json, TaskName, UsageError, context_of, parse_options
from orchestrator.cli.output import budget_of, console, note, print_json, status_text
from orchestrator.core.events.operations import OperationRefused
from orchestrator.core.task.agent import PauseReason
from orchestrator.server.schemas.task_input import CapsBody, ChangeBody
from orchestrator.server.schemas.tasks import ManyView, TaskView

OneOrAll = Annotated[
    str | None, typer.Argument(metavar="TASK", help="An id, its beginning, or a ticket's key.", show_default=False)
]


def pause(
    context: typer.Context,
    task: OneOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every task, and those submitted later.")] = False,  # noqa: A002
    json: Json = False,
) -> None:
    """Pause a task: its processes are frozen where they are, until `resume`."""
    _request_one_or_all(context, task, "pause", all=all, json=json)


def resume(
    context: typer.Context,
    task: OneOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every paused task; also ends a drain.")] = False,  # noqa: A002
    now: Annotated[bool, typer.Option("--now", help="Before its start time and outside its run windows, too.")] = False,
    json: Json = False,
) -> None:
    """Resume a paused task where it stopped, as soon as a slot is free."""
    if now and all:
        raise UsageError("--now lets one TASK run outside its hours; name it")
    _request_one_or_all(context, task, "start" if now else "resume", all=all, json=json)


def cancel(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Cancel a task: its agent is ended, its folder and its branch stay."""
    _request(context, task, "cancel", json)


def retry(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Retry the stage of a blocked task, after you have fixed what blocked it; all retries are reset.

    For a failed task, which cannot go on, a new task is made with the same ticket and options.
    """
    with context_of(context).client() as client:
        found = client.request(task, "retry")
    if json:
        print_json(found)
        return
    _say(found)
    if found.retry_of is not None and found.started_at is None:
        note(f"it is a new task with the ticket and the options of {found.retry_of}, which stays as it is")


def drain(context: typer.Context, json: Json = False) -> None:
    """Start no more tasks and end every agent; their sessions are kept.

    Everything continues when the daemon is restarted, or after `resume --all`.
    """
    _request_all(context, "drain", json=json)


def budget(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    usd: Annotated[float | None, typer.Option(help="Dollars in total.", min=0.01)] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens in total.", min=1)] = None,
    turns: Annotated[int | None, typer.Option(help="Turns in total.", min=1)] = None,
    hours: Annotated[float | None, typer.Option(help="Hours of work in total.", min=0.01)] = None,
    json: Json = False,
) -> None:
    """Set what a task may use in total, or show what it has used. A task that waited for a larger budget continues."""
    given = {"usd": usd, "tokens": tokens, "turns": turns, "hours": hours}
    caps = {name: cap for name, cap in given.items() if cap is not None}
    with context_of(context).client() as client:
        found = client.change(task, ChangeBody(caps=parse_options(CapsBody, caps))) if caps else client.task(task)
    if json:
        print_json(found)
        return
    _say(found)
    console().print(budget_of(found) or (f"that of {found.parent} counts" if found.parent else "no budget is set"))


def _request_one_or_all(context: typer.Context, name: str | None, action: str, *, all: bool, json: bool) -> None:  # noqa: A002
    if all == (name is not None):
        raise UsageError(f"give a TASK or --all; `orchestrator {action} --help` shows how it is used")
    if name is None:
        _request_all(context, action, json=json)
    else:
        _request(context, name, action, json)


def _request(context: typer.Context, name: str, action: str, json: bool) -> None:
    with context_of(context).client() as client:
        task = client.request(name, action)
    if json:
        print_json(task)
    else:
        _say(task)


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


def _say(task: TaskView) -> None:
    if task.paused and task.agent.blocked_by is None:
        console().print(task.id, "continues as soon as a slot is free")
    else:
        console().print(task.id, status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by))


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
