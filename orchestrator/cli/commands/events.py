"""`events`: what happens to tasks, one line each."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from orchestrator.cli.context import context_of
from orchestrator.cli.output import console, line, local, plain
from orchestrator.cli.reconnect import retry_while_down
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.schemas.events import EventView, GapView, StreamFilter

TOLD_AT_FIRST = 50
"""Events that are told unless --since says otherwise."""


def _begin(text: str) -> StreamFilter:
    """Where to begin: behind a number, at so many from the end, or at a time."""
    try:
        if text.removeprefix("-").isdecimal():
            return StreamFilter(from_=int(text))
        if len(text) == len("HH:MM"):
            now = datetime.now().astimezone()
            clock = datetime.strptime(text, "%H:%M")  # noqa: DTZ007 - only its hour and minute are taken
            at = now.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
            return StreamFilter(since=at if at <= now else (at - timedelta(days=1)))
        return StreamFilter(since=datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        said = f"{text!r} is neither the number of an event nor a time; write 41, -20, 22:30 or 2026-05-28T22:30"
        raise typer.BadParameter(said) from None


def events(
    context: typer.Context,
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="Only this one's.", show_default=False)] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    since: Annotated[
        StreamFilter | None,
        typer.Option(
            metavar="N|TIME", parser=_begin, help="After that event, or from a time on; default: the last 50."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line and nothing else.")] = False,
) -> None:
    """Tell what happened to all tasks, or to one, oldest first. The numbers that --since takes are in --json."""
    wanted = (since or StreamFilter(from_=-TOLD_AT_FIRST)).model_copy(update={"follow": follow})
    with context_of(context).client() as client:
        screen = console()
        for one in follow_events(client, wanted, task):
            if json:
                typer.echo(one.model_dump_json(by_alias=True, exclude={"event", "change"}))
            else:
                screen.print(render_event(one), soft_wrap=True)


def follow_events(client: Client, wanted: StreamFilter, task: str = "") -> Iterator[EventView | GapView]:
    """What a stream tells, each event once; one to be followed goes on after a restart of the daemon."""
    last: int | None = None
    while True:
        try:
            for number, one in client.events(wanted, task, last):
                last = number
                if one is not None:
                    yield one
        except DaemonUnreachable:
            if not wanted.follow or last is None:
                raise
        if not wanted.follow:
            return
        retry_while_down(client.status)


def render_event(one: EventView | GapView) -> Text:
    """An event on one line."""
    if isinstance(one, GapView):
        return Text("some events are lost: ", "yellow") + line(one.reason)
    moved = Text(f"  {one.from_ or 'new'} → {one.to}", "cyan") if one.from_ != one.to else Text()
    return Text(f"{local(one.timestamp)}  ", "dim") + Text(f"{plain(one.task)}  ") + line(one.text) + moved
