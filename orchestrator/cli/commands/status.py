"""`status` and `limits`: the daemon, running agents, waiting tasks, and usage windows."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from orchestrator.cli.context import Json, UsageError, context_of
from orchestrator.cli.labels import pause_label
from orchestrator.cli.output import (
    ago,
    budget_text,
    console,
    duration,
    facts,
    local,
    plain,
    print_json,
    status_text,
    table,
    waits_text,
)
from orchestrator.core.schedule.run_windows import span_to
from orchestrator.formats.person import person_name
from orchestrator.formats.units import size
from orchestrator.server.schemas.daemon import DoctorBriefView, RunningView, StatusView
from orchestrator.server.schemas.limits import DayView, LimitsView, RunWindowView, WindowView
from orchestrator.server.schemas.tasks import TaskLine

SHOWN_WAITING = 20


def status(context: typer.Context, json: Json = False) -> None:
    """Show the daemon's health, running agents with their resource usage, and tasks that wait for a slot."""
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
    if found.unreadable:
        screen.print()
        screen.print(table(("UNREADABLE", "WHY"), list(found.unreadable.items())))
    if found.standing:
        screen.print()
        screen.print(table(("PAUSED", "STATUS", "STAGE", "TITLE"), [_paused(one) for one in found.standing]))
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
        ("because", found.pressure or found.trouble),
        (
            "paused",
            found.paused_by and f"all tasks, by {person_name(found.paused_by)}, until orchestrator resume --all",
        ),
        ("hours", hours_text(found.run_windows)),
        ("daemon", up),
        ("slots", f"{found.places_taken} of {found.places} taken"),
        ("tasks", counts or "none"),
        ("waiting", waits_text(found.waits)),
        ("free space", f"{size(found.free_bytes)} (floor {size(found.free_space_floor)})"),
        ("doctor", _doctor(found.doctor) if found.doctor else None),
        ("data", found.data_dir),
        ("isolation", found.isolation),
        *(
            (f"channel {name}", Text(f"does not work {why}", style="bold red"))
            for name, why in found.dead_channels.items()
        ),
        *((f"part {name}", Text(f"fails: {plain(why)}", style="bold red")) for name, why in found.broken_parts.items()),
        *(("intake waits", plain(one)) for one in found.intake),
        *(
            (f"budget of {one.parent}", f"{budget_text(one.caps, one.spent)}, with its children")
            for one in found.budgets
        ),
    ]


def _doctor(found: DoctorBriefView) -> Text:
    at = local(found.checked_at)
    if found.bad:
        all_found = found.bad + found.warn
        counted = "1 problem" if all_found == 1 else f"{found.bad} of {all_found} problems"
        text = f"{counted} would stop the night: orchestrator doctor ({at})"
        return Text(text, style="bold red")
    if found.warn == 1:
        return Text(f"1 problem, which would not stop the night ({at})")
    return Text(f"{found.warn} problems, none of which would stop the night ({at})" if found.warn else f"fine ({at})")


def _paused(one: TaskLine) -> tuple[Text | str, ...]:
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
    window: Annotated[str | None, typer.Argument(help="With --forget: only this window.", show_default=False)] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Stop waiting for a limit, because the account can be used again.")
    ] = False,
    json: Json = False,
) -> None:
    """Show the account's usage windows, the daily budget, and the tasks that wait for either.

    Tasks wait for the reset of a window that is used up. After buying more usage or changing the account, use
    --forget, and tasks try again.
    """
    if window is not None and not forget:
        raise UsageError("a WINDOW is given with --forget only; without it, every window is shown")
    with context_of(context).client() as client:
        found = client.forget_limits(window) if forget else client.limits()
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(facts(_limit_facts(found)))
    if found.windows:
        screen.print()
        screen.print(table(("WINDOW", "STATUS", "USED", "RESETS", "REPORTED"), [_window(one) for one in found.windows]))
    if found.held:
        rows = [(one.task, pause_label(one.blocked_by), local(one.until) or "", one.because) for one in found.held]
        screen.print()
        screen.print(table(("TASK", "WAITS", "UNTIL", "WHY"), rows))


def _limit_facts(found: LimitsView) -> list[tuple[str, Text | str | None]]:
    walls = [
        (f"no turns in {wall.window}", f"until {local(wall.until) or 'you run orchestrator resume --all'}")
        for wall in found.walls
    ]
    fewer = f"{found.places_now} of {found.places}, because a usage window is nearly used up"
    return [
        *walls,
        ("windows", None if found.windows else "unknown before the first turn of an agent"),
        ("today", _today(found.day)),
        ("because", found.day.used_up),
        ("hours", hours_text(found.run_windows)),
        ("slots", fewer if found.places_now < found.places else str(found.places)),
    ]


def hours_text(windows: Iterable[RunWindowView]) -> str | None:
    """Return how run windows stand, in their own zones; None without a window."""
    now = datetime.now(UTC)
    return "; ".join(_hours(one, now) for one in windows) or None


def _hours(one: RunWindowView, now: datetime) -> str:
    state = f"{one.name} is {'open' if one.is_open else 'closed'}"
    if one.until is None:
        return state
    at = one.until.astimezone(ZoneInfo(one.zone))
    return f"{state} until {at:%a %H:%M} {one.zone}, {span_to(one.until, now)}"


def _today(day: DayView) -> str:
    return budget_text(day.caps, day.spent) or f"${day.spent.usd:.2f}, {day.spent.tokens:,} tokens, no budget is set"


def _window(one: WindowView) -> tuple[Text | str, ...]:
    return (
        one.name,
        Text(SAID.get(one.status, one.status), style=COLOURS.get(one.status, "")),
        "" if one.utilization is None else f"{one.utilization:.0%}",
        local(one.resets_at) or "unknown",
        f"{ago(one.seen_at)} ago",
    )
