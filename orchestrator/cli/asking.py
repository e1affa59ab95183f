"""`pause`, `resume`, `cancel`: what a person may ask of a task."""

import typer

from orchestrator.cli.place import Json, TaskName, place_of
from orchestrator.cli.screen import console, print_json, status_text


def pause(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Let a task stand still: its processes stop where they are, until `resume`."""
    _ask(context, task, "pause", json)


def resume(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Let a paused task go on where it stopped, as soon as there is a place."""
    _ask(context, task, "resume", json)


def cancel(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Give a task up: its agent is ended, its folder and its branch stay."""
    _ask(context, task, "cancel", json)


def _ask(context: typer.Context, name: str, action: str, json: bool) -> None:
    with place_of(context).client() as client:
        task = client.ask(name, action)
    if json:
        print_json(task)
        return
    if task.paused and task.agent.blocked_by is None:
        console().print(task.id, "goes on as soon as there is a place")
    else:
        console().print(task.id, status_text(task.status, paused=task.paused))
