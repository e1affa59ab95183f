"""`why`: the chain of facts that keeps a task where it is."""

import typer
from rich.text import Text

from orchestrator.cli.place import Json, TaskName, place_of
from orchestrator.cli.screen import console, plain, print_json, status_text


def why(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """Say what keeps a task where it is, nearest reason first, and what would move it."""
    with place_of(context).client() as client:
        found = client.why(task)
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(
        found.task, status_text(found.status, paused=found.paused, blocked_by=found.blocked_by), "in", found.stage
    )
    for fact in found.facts:
        screen.print(Text(f"  because {plain(fact)}"))
    screen.print(Text(f"  next: {plain(found.next)}", style="bold"))
