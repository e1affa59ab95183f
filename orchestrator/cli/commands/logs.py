"""`logs`: an agent's transcript, read to its end or followed."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.context import Json, TaskName, UsageError, context_of
from orchestrator.cli.output import console, note, plain, print_json
from orchestrator.cli.reconnect import moves_no_more, retry_while_down
from orchestrator.server.client import Client, RequestRefused
from orchestrator.server.schemas.records import TranscriptEntry, TranscriptPage

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
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task ends.")] = False,
    agent: Annotated[int | None, typer.Option(metavar="N", help="Which agent; default: the last one.", min=1)] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The lines as the agent wrote them.")] = False,
    json: Json = False,
) -> None:
    """Read what an agent said and did. With -f and without --agent the next agent follows the one before."""
    if follow and json:
        raise UsageError("--json prints one document and -f never ends; take --raw -f for a stream of lines")
    with context_of(context).client() as client:
        task_id = client.task(task).id
        pages = _followed(client, task_id, agent, raw) if follow else _read(client, task_id, agent, raw)
        if json:
            _print_document(pages)
            return
        screen, told = console(), 0
        for page in pages:
            if page.attempt != told and not raw:
                note(f"── agent {page.attempt} ──")
                told = page.attempt
            for entry in page.entries:
                _print(screen, entry)


def _read(client: Client, task: str, agent: int | None, raw: bool) -> Iterator[TranscriptPage]:
    """Everything that an agent said until now, page by page."""
    attempt, offset = agent or client.task(task).agent.attempt, -1
    if not attempt:
        note("no agent has worked at it yet; `orchestrator why` says what it waits for")
        return
    page = client.transcript(task, attempt, raw=raw)
    while page.next_offset != offset:
        yield page
        offset = page.next_offset
        page = client.transcript(task, attempt, offset, raw=raw)


def _followed(client: Client, task: str, agent: int | None, raw: bool) -> Iterator[TranscriptPage]:
    """What agents say as they say it: of the one that was named to its end, else of each until the task ends."""
    attempt, offset = agent or max(1, client.task(task).agent.attempt), 0
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
        elif (is_over and agent is not None) or (moves_no_more(seen.status) and (is_over or page is None)):
            return
        else:
            time.sleep(LOOK_EVERY)


def _page(client: Client, task: str, attempt: int, offset: int, raw: bool) -> TranscriptPage | None:
    """The next page; None while the agent has not begun."""
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
    """All pages as one; an empty one if no agent has worked yet."""
    read = list(pages) or [TranscriptPage(attempt=0, entries=(), next_offset=0, ended=False)]
    print_json(read[-1].model_copy(update={"entries": tuple(entry for page in read for entry in page.entries)}))
