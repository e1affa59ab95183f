"""`status`: the daemon, who waits and who runs."""

from typing import Annotated

import typer
from rich.text import Text

from orchestrator.cli.context import Json, UsageError, context_of
from orchestrator.cli.output import (
    STANDING,
    ago,
    budget_text,
    console,
    duration,
    facts,
    local,
    print_json,
    size,
    status_text,
    table,
)
from orchestrator.server.schemas.daemon import RunningView, StatusView
from orchestrator.server.schemas.limits import DayView, LimitsView, WindowView
from orchestrator.server.schemas.tasks import TaskLine

SHOWN_WAITING = 20


def status(context: typer.Context, json: Json = False) -> None:
    """Show how the daemon is, which agents run with what they take, and who waits for a place."""
    with context_of(context).client() as client:
        found = client.status()
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(facts(_facts(found)))
    if found.running:
        headings = ("RUNNING", "STAGE", "ROLE", "PROCESS", "CPU", "MEMORY", "TOKENS", "COST", "TITLE")
        screen.print()
        screen.print(table(headings, [_running(one) for one in found.running]))
    if found.standing:
        screen.print()
        screen.print(table(("STANDING", "STATUS", "STAGE", "TITLE"), [_standing(one) for one in found.standing]))
    if found.queue:
        rows = [(one.id, one.priority or "", ago(one.created_at), one.title) for one in found.queue[:SHOWN_WAITING]]
        screen.print()
        screen.print(table(("WAITING", "PRIORITY", "AGE", "TITLE"), rows))
        if len(found.queue) > SHOWN_WAITING:
            screen.print(f"and {len(found.queue) - SHOWN_WAITING} more")


def _facts(found: StatusView) -> list[tuple[str, Text | str | None]]:
    counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
    up = f"pid {found.pid}, version {found.version}, up {duration(found.uptime_seconds)}"
    return [
        ("health", Text(found.health, style="green" if found.health == "ok" else "bold yellow")),
        ("because", found.pressure),
        ("paused", found.paused_by and f"by {found.paused_by}, all of them, until orchestrator resume --all"),
        ("daemon", up),
        ("places", f"{found.places_taken} of {found.places} taken"),
        ("tasks", counts or "none"),
        ("free space", f"{size(found.free_bytes)} (floor {size(found.free_space_floor)})"),
        ("data", found.data_dir),
    ]


def _standing(one: TaskLine) -> tuple[Text | str, ...]:
    return one.id, status_text(one.status, paused=one.paused, blocked_by=one.blocked_by), one.stage, one.title


def _running(one: RunningView) -> tuple[Text | str, ...]:
    return (
        one.task,
        one.stage,
        one.role or "",
        one.process.value,
        "" if one.cpu_seconds is None else duration(one.cpu_seconds),
        "" if one.rss_bytes is None else size(one.rss_bytes),
        f"{one.tokens_used:,}",
        f"${one.cost_usd:.2f}",
        one.title,
    )


COLOURS = {"allowed": "green", "allowed_warning": "yellow", "rejected": "bold red"}
SAID = {"allowed": "open", "allowed_warning": "nearly used up", "rejected": "used up"}


def limits(
    context: typer.Context,
    window: Annotated[str | None, typer.Argument(help="With --forget: this window alone.", show_default=False)] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Wait no more for a limit, for the account may be used again.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what is known of the account's usage windows, what the day may cost, and which tasks wait for either.

    A window that is used up is waited for until its reset; when you have bought usage or changed the account, have
    that forgotten with --forget, and tasks try again.
    """
    if window is not None and not forget:
        raise UsageError("a WINDOW goes with --forget; without it every window is shown")
    with context_of(context).client() as client:
        found = client.forget_limits(window) if forget else client.limits()
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(facts(_limit_facts(found)))
    if found.windows:
        screen.print()
        screen.print(table(("WINDOW", "STATUS", "USED", "RESETS", "TOLD"), [_window(one) for one in found.windows]))
    if found.held:
        rows = [(one.task, STANDING[one.blocked_by], local(one.until) or "", one.because) for one in found.held]
        screen.print()
        screen.print(table(("TASK", "WAITS", "UNTIL", "WHY"), rows))


def _limit_facts(found: LimitsView) -> list[tuple[str, Text | str | None]]:
    walls = [
        (f"no turns in {wall.window}", f"until {local(wall.until) or 'you say so: orchestrator resume --all'}")
        for wall in found.walls
    ]
    fewer = f"{found.places_now} of {found.places}, for a usage window is nearly used up"
    return [
        *walls,
        ("windows", None if found.windows else "none is known before an agent's first turn"),
        ("today", _today(found.day)),
        ("because", found.day.used_up),
        ("places", fewer if found.places_now < found.places else str(found.places)),
    ]


def _today(day: DayView) -> str:
    return budget_text(day.caps, day.spent) or f"${day.spent.usd:.2f}, {day.spent.tokens:,} tokens, no cap is set"


def _window(one: WindowView) -> tuple[Text | str, ...]:
    return (
        one.name,
        Text(SAID.get(one.status, one.status), style=COLOURS.get(one.status, "")),
        "" if one.utilization is None else f"{one.utilization:.0%}",
        local(one.resets_at) or "not told",
        f"{ago(one.seen_at)} ago",
    )
