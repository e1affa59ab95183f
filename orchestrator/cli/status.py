"""`status`: the daemon, who waits and who runs."""

import typer
from rich.text import Text

from orchestrator.api.daemon_views import RunningView, StatusView
from orchestrator.api.views import TaskLine
from orchestrator.cli.place import Json, place_of
from orchestrator.cli.screen import ago, console, duration, facts, print_json, size, status_text, table

SHOWN_WAITING = 20


def status(context: typer.Context, json: Json = False) -> None:
    """Show how the daemon is, which agents run with what they take, and who waits for a place."""
    with place_of(context).client() as client:
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
