"""`events` and `logs`: what happens to tasks, and what an agent says and does; read to the end or followed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.context import (
    Json,
    TaskName,
    UsageError,
    complete_task,
    context_of,
    has_stopped,
    retry_while_down,
)
from orchestrator.cli.output import console, line, local, note, plain, print_json
from orchestrator.cli.tasks.reading import Place, last_entries, place_at
from orchestrator.cli.times import parse_past, past_time
from orchestrator.clock import now as present
from orchestrator.server.client import Client, DaemonUnreachable, RequestRefused
from orchestrator.server.schemas.events import EventView, GapView, StreamFilter
from orchestrator.server.schemas.records import TranscriptEntry, TranscriptPage

SHOWN_AT_FIRST = 50
"""Events that are listed unless --since says otherwise."""


def _begin(text: str) -> StreamFilter:
    """Return where to begin: after an event, so many events before the end, or at a time."""
    if text.removeprefix("-").isdecimal():
        return StreamFilter(from_=int(text))
    try:
        return StreamFilter(since=parse_past(text, present()))
    except ValueError:
        said = f"{text!r} is neither the number of an event nor a time; write 41, -20, 22:30, 1h or yesterday"
        raise typer.BadParameter(said) from None


def events(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help="Only events of this task.", show_default=False, autocompletion=complete_task
        ),
    ] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep following new events.")] = False,
    since: Annotated[
        StreamFilter | None,
        typer.Option(
            metavar="N|TIME", parser=_begin, help="After this event, or from this time; default: the last 50."
        ),
    ] = None,
    tail: Annotated[int | None, typer.Option("--tail", "-n", metavar="N", help="The last N events.", min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line and nothing else.")] = False,
) -> None:
    """List what happened to all tasks, or to one, oldest first. --json shows the numbers that --since takes."""
    if since is not None and tail is not None:
        raise UsageError("give --since or --tail, not both")
    count = -SHOWN_AT_FIRST if tail is None else -tail
    wanted = (since or StreamFilter(from_=count)).model_copy(update={"follow": follow, "whole": json})
    with context_of(context).client() as client:
        screen = console()
        for one in follow_events(client, wanted, task):
            if json:
                typer.echo(orjson.dumps(_document(one)).decode())
            else:
                screen.print(render_event(one), soft_wrap=True)


def _document(one: EventView | GapView) -> dict[str, object]:
    """Return what --json prints of an event: with who asked for it, as it is on record, and without what it changed."""
    document = one.model_dump(mode="json", by_alias=True, exclude={"event", "change"})
    event = one.event if isinstance(one, EventView) else None
    return {**document, "by": event["by"]} if isinstance(event, dict) and event.get("by") else document


def follow_events(client: Client, wanted: StreamFilter, task: str = "") -> Iterator[EventView | GapView]:
    """Yield the events of a stream, each once; a followed stream continues after a restart of the daemon."""
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
    """Render an event on one line."""
    if isinstance(one, GapView) and one.deleted:
        return Text(plain(one.reason), "dim")
    if isinstance(one, GapView):
        return Text("some events are lost: ", "yellow") + line(one.reason)
    moved = Text(f"  {one.from_ or 'new'} → {one.to}", "cyan") if one.from_ != one.to else Text()
    return Text(f"{local(one.timestamp)}  ", "dim") + Text(f"{plain(one.task)}  ") + line(one.text) + moved


LOOK_EVERY = 0.5
"""Seconds between two looks of `-f`."""

STYLES = {
    "text": "",
    "thinking": "dim italic",
    "tool": "cyan",
    "result": "dim",
    "session": "dim",
    "turn": "bold green",
    "error": "red",
    "denied": "red",
    "asked": "yellow",
    "retry": "yellow",
    "limit": "yellow",
    "noise": "dim",
}


def logs(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until the task ends.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", metavar="N", help="Only the last N entries.", min=0)
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=past_time, help="Since then, of every agent: 1h, 22:30, yesterday."),
    ] = None,
    agent: Annotated[
        int | None, typer.Option(metavar="N", help="The number of the agent; default: the last one.", min=1)
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the lines as the agent wrote them.")] = False,
    json: Json = False,
) -> None:
    """Print what an agent said and did. With -f and without --agent, each next agent is followed too."""
    if follow and json:
        raise UsageError("--json prints one document, and -f never ends; use --raw -f for a stream of lines")
    if since is not None and agent is not None:
        raise UsageError("give --since, which reads every agent that has worked since, or --agent")
    with context_of(context).client() as client:
        task_id = client.task(task).id
        reader = _Reader(client=client, task=task_id, agent=agent, raw=raw)
        pages = reader.pages(place_at(client, task_id, since) if since else None, tail, follow=follow)
        if json:
            _print_document(pages)
            return
        try:
            _print_pages(pages, raw=raw)
        except KeyboardInterrupt:
            note(f"the task goes on; look at it: orchestrator show {task_id}    end it: orchestrator cancel {task_id}")
            raise


def _print_pages(pages: Iterator[TranscriptPage], *, raw: bool) -> None:
    screen, told = console(), 0
    for page in pages:
        if page.attempt != told and not raw:
            note(f"── agent {page.attempt} ──")
            told = page.attempt
        for entry in page.entries:
            _print(screen, entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads what the agents of a task say; without `agent`, the last one, or those since a place."""

    client: Client
    task: str
    agent: int | None
    raw: bool

    def pages(self, place: Place | None, tail: int | None, *, follow: bool) -> Iterator[TranscriptPage]:
        """Yield what was said from a place on, or its last entries, and go on as agents say more."""
        latest = self.client.task(self.task).agent.attempt
        attempt = place.attempt if place else self.agent or latest
        if follow and tail is None:
            yield from _followed(self.client, self.task, self.agent, self.raw, place or Place(max(1, attempt), 0))
            return
        if not (self.agent or latest):
            note("no agent has worked on it yet; `orchestrator why` shows what it waits for")
            if not follow:
                return
        begin = place or Place(max(1, attempt), 0)
        read: list[Place] = [begin]
        pages = self._until_now(begin, self.agent or latest, read)
        yield from pages if tail is None else last_entries(pages, tail)
        if follow:
            yield from _followed(self.client, self.task, self.agent, self.raw, read[-1])

    def _until_now(self, place: Place, latest: int, read: list[Place]) -> Iterator[TranscriptPage]:
        """Yield everything that agents have said until now, page by page; the last of `read` says how far that is."""
        for attempt in range(place.attempt, latest + 1):
            offset = place.offset if attempt == place.attempt else 0
            while page := self._page(attempt, offset, is_only=self.agent is not None or latest == place.attempt):
                read.append(Place(attempt, page.next_offset))
                if page.next_offset == offset:
                    break
                yield page
                offset = page.next_offset

    def _page(self, attempt: int, offset: int, *, is_only: bool) -> TranscriptPage | None:
        """Return the next page; None for one of several agents that has left nothing."""
        if is_only:
            return self.client.transcript(self.task, attempt, offset, raw=self.raw)
        return _page(self.client, self.task, attempt, offset, self.raw)


def _followed(client: Client, task: str, agent: int | None, raw: bool, begin: Place) -> Iterator[TranscriptPage]:
    """Yield what agents say as they say it: one agent to its end, or each in turn until the task ends."""
    attempt, offset = begin
    while True:
        seen = retry_while_down(partial(client.task, task))
        page = retry_while_down(partial(_page, client, task, attempt, offset, raw))
        if page is not None and page.next_offset != offset:
            yield page
            offset = page.next_offset
            continue
        is_over = page is not None and page.ended
        if is_over and agent is None and seen.agent.attempt > attempt:
            attempt, offset = attempt + 1, 0
        elif (is_over and agent is not None) or (has_stopped(seen.status) and (is_over or page is None)):
            return
        else:
            time.sleep(LOOK_EVERY)


def _page(client: Client, task: str, attempt: int, offset: int, raw: bool) -> TranscriptPage | None:
    """Return the next page; None while the agent has not started."""
    try:
        return client.transcript(task, attempt, offset, raw=raw)
    except RequestRefused as refused:
        if refused.kind != "no-such-file":
            raise
        return None


def _print(screen: Console, entry: TranscriptEntry) -> None:
    text = plain(entry.text).strip("\n")
    match entry.kind:
        case "raw":
            typer.echo(text if screen.is_terminal else entry.text)
        case "tool":
            screen.print(Text(f"▸ {text}", style=STYLES["tool"]))
        case "result" | "error" | "denied":
            screen.print(Text(f"  {text}", style=STYLES[entry.kind]))
        case "text" | "thinking":
            screen.print(Text(text, style=STYLES[entry.kind]))
        case kind:
            screen.print(Text(f"{kind}: {text}", style=STYLES.get(kind, "")))


def _print_document(pages: Iterator[TranscriptPage]) -> None:
    """Print all pages as one, an empty one if no agent has worked yet."""
    read = list(pages) or [TranscriptPage(attempt=0, entries=(), next_offset=0, ended=False)]
    print_json(read[-1].model_copy(update={"entries": tuple(entry for page in read for entry in page.entries)}))
