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
from datetime import UTC, datetime
from threading import Thread
from types import FrameType

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from orchestrator.cli.commands.streams import render_event
from orchestrator.cli.context import CliContext, UsageError, context_of
from orchestrator.cli.output import ago, console, duration, line, local, status_text, table
from orchestrator.server.client import Client, DaemonUnreachable, RequestRefused
from orchestrator.server.schemas.events import EventView, GapView, GlanceView, OverviewView, StreamFilter

EVERY, LEAST = 1.0, 0.1
"""Seconds between two redraws: the longest and the shortest."""
TRY_EVERY = 0.5
MOST_TASKS, MOST_EVENTS = 500, 50

HEADINGS = ("TASK", "STATUS", "STAGE", "STEP", "DONE", "AGENT", "SINCE", "TOKENS", "COST", "WHY", "TITLE")

Told = EventView | GapView


def watch(context: typer.Context) -> int:
    """Watch everything on one live screen: running agents, waiting tasks with reasons, and the last events. q quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "a live screen needs a terminal; use `orchestrator status`, or `orchestrator events -f` to follow events"
        )
    options, last = context_of(context), deque[Told](maxlen=MOST_EVENTS)
    with options.client() as client:
        screen = console()
        found = client.overview(_room(screen))
        bell, ring = os.pipe()
        Thread(target=_listen, args=(options, last, ring), daemon=True).start()
        with suppress(KeyboardInterrupt), _keys(), Live(console=screen, screen=True, auto_refresh=False) as live:
            away = ""
            while True:
                live.update(_picture(found, tuple(last), away, screen), refresh=True)
                if _quits((), LEAST) or _quits((bell,), EVERY - LEAST):
                    break
                found, away = _look(client, found, _room(screen))
    return 0


def _room(screen: Console) -> int:
    """Return how many tasks fit on the screen at most."""
    return min(MOST_TASKS, screen.size.height)


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


def _quits(bells: Sequence[int], seconds: float) -> bool:
    """Wait for a key or an event, at most so many seconds, and return whether the user quits."""
    keys = sys.stdin.fileno()
    ready, _, _ = select.select([keys, *bells], [], [], seconds)
    for bell in set(ready) - {keys}:
        os.read(bell, 65536)
    pressed = os.read(keys, 1024) if keys in ready else b"."
    return not pressed or b"q" in pressed.lower()


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


def _picture(found: OverviewView, last: Sequence[Told], away: str, screen: Console) -> Group:
    """Return the whole screen; the list of tasks gets the lines that the rest leaves."""
    width, height = screen.size
    head = [_cut(one, width) for one in _head(found, away)]
    events = [_cut(render_event(one), width) for one in last[-max(3, height // 4) :]]
    room = max(1, height - len(head) - len(events) - 5)
    rows = found.tasks[:room]
    hidden = len(found.tasks) - len(rows) + found.more
    foot = _cut(Text(f"and {hidden} more tasks   " * bool(hidden) + "q quits", "dim"), width)
    body = table(HEADINGS, [_row(one) for one in rows]) if rows else Text("no active tasks", "dim")
    return Group(*head, Text(), body, Text(), *events, foot)


def _head(found: OverviewView, away: str) -> Iterator[Text]:
    health = Text(found.health, "green" if found.health == "ok" else "bold yellow")
    slots = f"  {found.places_taken} of {found.places} slots taken  {found.waiting} waiting"
    times = f"  up {ago(found.started_at)}  {datetime.now(UTC).astimezone():%H:%M:%S}"
    yield Text("orchestrator ", "bold") + health + Text(slots + times)
    yield Text(", ".join(f"{count} {status}" for status, count in found.counts.items()) or "no tasks", "dim")
    if away:
        yield Text("daemon not reachable: ", "bold red") + line(away)
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
