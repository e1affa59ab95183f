"""`pause`, `resume`, `cancel`, `retry`, `drain`, `budget`: what a person may ask of a task, or of all."""

from typing import Annotated

import orjson
import typer

from orchestrator.cli.context import Json, TaskName, UsageError, context_of, parse_options
from orchestrator.cli.output import budget_text, console, note, print_json, status_text
from orchestrator.core.events.operations import OperationRefused
from orchestrator.server.schemas.task_input import CapsBody
from orchestrator.server.schemas.tasks import ManyView, TaskView

OneOrAll = Annotated[
    str | None, typer.Argument(metavar="TASK", help="An id, its beginning, or a ticket's key.", show_default=False)
]


def pause(
    context: typer.Context,
    task: OneOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every task, those too that are handed in later.")] = False,  # noqa: A002
    json: Json = False,
) -> None:
    """Let a task stand still: its processes stop where they are, until `resume`."""
    _ask_one_or_all(context, task, "pause", all=all, json=json)


def resume(
    context: typer.Context,
    task: OneOrAll = None,
    all: Annotated[bool, typer.Option("--all", "-a", help="Every paused task; also ends a drain.")] = False,  # noqa: A002
    json: Json = False,
) -> None:
    """Let a paused task go on where it stopped, as soon as there is a place."""
    _ask_one_or_all(context, task, "resume", all=all, json=json)


def cancel(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Give a task up: its agent is ended, its folder and its branch stay."""
    _ask(context, task, "cancel", json)


def retry(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Try the stage of a blocked task anew, once you have mended what blocked it; every try is renewed."""
    _ask(context, task, "retry", json)


def drain(context: typer.Context, json: Json = False) -> None:
    """Take no more tasks and end every agent, its session kept.

    When the daemon is started anew, or after `resume --all`, everything goes on.
    """
    _ask_all(context, "drain", json=json)


def budget(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    usd: Annotated[float | None, typer.Option(help="Dollars in all.", min=0.01)] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens in all.", min=1)] = None,
    turns: Annotated[int | None, typer.Option(help="Turns in all.", min=1)] = None,
    hours: Annotated[float | None, typer.Option(help="Hours of work in all.", min=0.01)] = None,
    json: Json = False,
) -> None:
    """Say what a task may use in all, or look at what it used; one that had used up its budget goes on."""
    given = {"usd": usd, "tokens": tokens, "turns": turns, "hours": hours}
    caps = {name: cap for name, cap in given.items() if cap is not None}
    with context_of(context).client() as client:
        found = client.change_caps(task, parse_options(CapsBody, caps)) if caps else client.task(task)
    if json:
        print_json(found)
        return
    _say(found)
    console().print(budget_text(found.caps, found.spent) or "no cap is set")


def _ask_one_or_all(context: typer.Context, name: str | None, action: str, *, all: bool, json: bool) -> None:  # noqa: A002
    if all == (name is not None):
        raise UsageError(f"say which: a TASK, or --all; `orchestrator {action} --help` tells how it is used")
    if name is None:
        _ask_all(context, action, json=json)
    else:
        _ask(context, name, action, json)


def _ask(context: typer.Context, name: str, action: str, json: bool) -> None:
    with context_of(context).client() as client:
        task = client.ask(name, action)
    if json:
        print_json(task)
    else:
        _say(task)


def _ask_all(context: typer.Context, action: str, *, json: bool) -> None:
    with context_of(context).client() as client:
        changed: ManyView = client.ask_all(action)
    if json:
        print_json(changed)
        return
    for task in changed.tasks:
        console().print(task.id, status_text(task.status, paused=task.paused, blocked_by=task.blocked_by))
    if not changed.tasks:
        note("no task had to be changed")


def _say(task: TaskView) -> None:
    if task.paused and task.agent.blocked_by is None:
        console().print(task.id, "goes on as soon as there is a place")
    else:
        console().print(task.id, status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by))


def transition(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="A stage of its pipeline, such as PLANNING.")],
    force: Annotated[bool, typer.Option("--force", help="Whatever its guards miss.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it goes on record with who you are.")] = "",
    json: Json = False,
) -> int:
    """Bring a task to a stage, whatever its guards miss; what was missed is shown and kept.

    A task moves by itself when nothing is missing, so there is no such command without --force.
    """
    if not force or not reason.strip():
        raise UsageError(
            "a task moves by itself when nothing is missing; to move it all the same, give --force and --reason"
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
