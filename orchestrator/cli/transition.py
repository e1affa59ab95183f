"""`transition`: a person's way past the guards, with a reason that goes on record."""

from typing import Annotated

import orjson
import typer

from orchestrator.cli.place import Json, Misused, TaskName, place_of
from orchestrator.cli.screen import console, note
from orchestrator.core.operation import OperationRefused


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
        raise Misused(
            "a task moves by itself when nothing is missing; to move it all the same, give --force and --reason"
        )
    with place_of(context).client() as client:
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
