"""`watch`: everything on one live screen, redrawn at every event and each second.

A second thread reads the events and writes to a pipe, so that one select() waits for keys, events and time. It has a
client of its own, which ends with the program.
"""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from types import FrameType

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.cli.commands.streams import render_event
from orchestrator.cli.context import CliContext, UsageError, context_of
from orchestrator.cli.output import (
    ago,
    console,
    duration,
    facts,
    line,
    local,
    note,
    plain,
    status_text,
    table,
    waits_text,
)
from orchestrator.cli.request_output import render_request
from orchestrator.cli.screen.keys import HELP, Selection, Shown, key_names, press, still_there
from orchestrator.core.schedule.waits import WaitReason
from orchestrator.daemon.access.verbs import Verb
from orchestrator.server.client import Client, DaemonUnreachable, RequestRefused
from orchestrator.server.schemas.events import EventView, GapView, GlanceView, OverviewView, StreamFilter

EVERY, LEAST = 1.0, 0.1
"""Seconds between two redraws: the longest and the shortest."""
TRY_EVERY = 0.5
GONE = b"\x04"
"""What is read where there is no terminal any more: an end of the input."""
MOST_TASKS, MOST_EVENTS = 500, 50

HEADINGS = ("TASK", "STATUS", "STAGE", "STEP", "DONE", "AGENT", "SINCE", "TOKENS", "COST", "WHY", "TITLE")

Told = EventView | GapView


def watch(context: typer.Context) -> int:
    """Watch everything on one live screen: running agents, waiting tasks with reasons, and the last events.

    The arrow keys select a task, ? lists what can be done with it, q quits.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "a live screen needs a terminal; use `orchestrator status`, or `orchestrator events -f` to follow events"
        )
    options, last = context_of(context), deque[Told](maxlen=MOST_EVENTS)
    with options.client() as client:
        screen = console()
        found = client.overview(_room(screen, 0))
        bell, ring = os.pipe()
        Thread(target=_listen, args=(options, last, ring), daemon=True).start()
        with suppress(KeyboardInterrupt), _keys(), Live(console=screen, screen=True, auto_refresh=False) as live:
            away, now = "", Selection()
            detail: tuple[Text, ...] = ()
            while True:
                picture, rows = _picture(found, tuple(last), away, screen, now, detail)
                live.update(picture, refresh=True)
                pressed = _pressed((), LEAST) or _pressed((bell,), EVERY - LEAST)
                now = _after(client, now, pressed, found, rows)
                if now.quits:
                    break
                found, away = _look(client, found, _room(screen, now.first))
                now = still_there(now, [one.id for one in found.tasks], rows)
                detail = _detail(client, now)
    note("every task goes on; `orchestrator pause --all` stops them, `orchestrator cancel TASK` ends one")
    return 0


def _room(screen: Console, first: int) -> int:
    """Return how many tasks to ask for: those above the screen, and those that fit on it at most."""
    return min(MOST_TASKS, first + screen.size.height)


def _after(client: Client, now: Selection, pressed: bytes, found: OverviewView, rows: int) -> Selection:
    """Return the selection after keys, with what the user asked for done."""
    tasks = [one.id for one in found.tasks]
    for key in key_names(pressed):
        now = press(now, key, tasks, rows)
        if now.order is not None and now.task is not None:
            now = replace(now, order=None, said=_done(client, now.task, now.order))
    return replace(now, quits=True) if pressed == GONE else now


def _done(client: Client, task: str, verb: Verb) -> str:
    """Do something with a task, and return what came of it."""
    try:
        (one,) = client.batch(verb, [task]).results
    except (DaemonUnreachable, RequestRefused) as error:
        return f"{task}: {error}"
    return f"{task}: {one.problem.detail if one.problem else f'{verb} is done'}"


def _detail(client: Client, now: Selection) -> tuple[Text, ...]:
    """Return why the selected task is where it is, and what it asks, if that is shown."""
    if now.shown is not Shown.ONE or now.task is None:
        return ()
    try:
        task, why = client.task(now.task), client.why(now.task)
    except (DaemonUnreachable, RequestRefused) as error:
        return (Text(str(error), "red"),)
    asked = [words for request in task.waiting for words in render_request(request)]
    status = status_text(task.status, paused=task.paused, blocked_by=task.agent.blocked_by)
    head = Text(f"{task.id} ", "bold") + status + Text(f" in {task.stage}  {task.progress}%")
    facts = [Text(f"because {plain(fact)}") for fact in why.facts]
    return (head, line(task.title), Text(), *facts, Text(f"next: {plain(why.next)}", "bold"), Text(), *asked)


def _look(client: Client, before: OverviewView, most: int) -> tuple[OverviewView, str]:
    """Return the present overview; while the daemon is away, the last one and the error."""
    try:
        return client.overview(most), ""
    except DaemonUnreachable as error:
        return before, str(error)


def _listen(options: CliContext, last: deque[Told], ring: int) -> None:
    """Collect events and signal each through the pipe, as long as the program runs."""
    behind: int | None = None
    while True:
        with suppress(DaemonUnreachable, RequestRefused), options.client() as client:
            for number, one in client.events(StreamFilter(from_=-MOST_EVENTS), "", behind):
                behind = number
                if one is not None:
                    last.append(one)
                    os.write(ring, b".")
        time.sleep(TRY_EVERY)


def _pressed(bells: Sequence[int], seconds: float) -> bytes:
    """Wait for a key or an event, at most so many seconds, and return the keys; `GONE` without a terminal."""
    keys = sys.stdin.fileno()
    ready, _, _ = select.select([keys, *bells], [], [], seconds)
    for bell in set(ready) - {keys}:
        os.read(bell, 65536)
    return (os.read(keys, 1024) or GONE) if keys in ready else b""


@contextmanager
def _keys() -> Iterator[None]:
    """Read single keys without echo; restore the terminal afterwards, also after SIGTERM and SIGHUP."""
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    tty.setcbreak(keys)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _picture(  # noqa: PLR0913, PLR0917 - everything that is on the screen
    found: OverviewView, last: Sequence[Told], away: str, screen: Console, now: Selection, detail: Sequence[Text]
) -> tuple[Group, int]:
    """Return the whole screen, and how many rows the list of tasks has: the lines that the rest leaves."""
    width, height = screen.size
    head = [_cut(one, width) for one in _head(found, away)]
    told = last[-max(3, height // 4) :] if now.shown is Shown.TASKS else ()
    events = [_cut(render_event(one), width) for one in told]
    rows = max(1, height - len(head) - len(events) - 5)
    shown = found.tasks[now.first : now.first + rows]
    hidden = len(found.tasks) - len(shown) + found.more
    foot = _cut(_foot(now, hidden), width)
    match now.shown:
        case Shown.HELP:
            body: RenderableType = facts(HELP)
        case Shown.ONE:
            wrapped = [part for text in detail for part in text.wrap(screen, width)] or [Text("…", "dim")]
            body = Group(*wrapped[: rows + 1])
        case Shown.TASKS if shown:
            body = _list(shown, now.task)
        case _:
            body = Text("no active tasks", "dim")
    return Group(*head, Text(), body, Text(), *events, foot), rows


def _list(shown: Sequence[GlanceView], selected: str | None) -> Table:
    body = table(HEADINGS, [_row(one) for one in shown])
    for row, one in zip(body.rows, shown, strict=True):
        row.style = "reverse" if one.id == selected else ""
    return body


def _foot(now: Selection, hidden: int) -> Text:
    if now.asked is not None:
        return Text(f"{now.asked} {now.task}? (y/n)", "bold yellow")
    if now.said:
        return Text(plain(now.said), "bold")
    return Text(f"and {hidden} more tasks   " * bool(hidden) + "↑↓ select   ? help   q quits", "dim")


def _head(found: OverviewView, away: str) -> Iterator[Text]:
    if away:
        yield Text("daemon not reachable: ", "bold white on red") + Text(plain(away), "white on red")
    health = Text(found.health, "green" if found.health == "ok" else "bold yellow")
    slots = f"  {found.places_taken} of {found.places} slots taken  {found.waiting} waiting"
    times = f"  up {ago(found.started_at)}  {datetime.now(UTC).astimezone():%H:%M:%S}"
    yield Text("orchestrator ", "bold") + health + Text(slots + times)
    yield Text(", ".join(f"{count} {status}" for status, count in found.counts.items()) or "no tasks", "dim")
    if any(one.reason is not WaitReason.SLOT for one in found.waits):
        yield Text(f"waiting: {waits_text(found.waits)}", "dim")
    if found.pressure:
        yield Text("paused: ", "bold yellow") + line(found.pressure)
    if found.trouble:
        yield Text("no agent can work: ", "bold yellow") + line(found.trouble)
    if found.limited_until:
        left = duration((found.limited_until - datetime.now(UTC)).total_seconds())
        yield Text(f"usage limit until {local(found.limited_until)}, in {left}", "yellow")


def _row(one: GlanceView) -> tuple[Text | str, ...]:
    agent = one.role or ""
    return (
        one.id,
        status_text(one.status, paused=one.paused, blocked_by=one.blocked_by),
        one.stage,
        f"{one.step} of {one.steps}" if one.step else "",
        f"{one.progress}%",
        agent if one.agent == "running" else f"{agent} {one.agent}".strip(),
        ago(one.since),
        f"{one.tokens_used:,}" if one.tokens_used else "",
        f"${one.cost_usd:.2f}" if one.cost_usd else "",
        one.why,
        one.title,
    )


def _cut(text: Text, width: int) -> Text:
    """Return the text cut to the width of the screen."""
    text.truncate(width, overflow="ellipsis")
    return text
