"""`limits`: usage windows, the day's budget, and who waits for them."""

from typing import Annotated

import typer
from rich.text import Text

from orchestrator.api.limit_views import DayView, LimitsView, WindowView
from orchestrator.cli.place import Json, Misused, place_of
from orchestrator.cli.screen import STANDING, ago, budget_text, console, facts, local, print_json, table

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
        raise Misused("a WINDOW goes with --forget; without it every window is shown")
    with place_of(context).client() as client:
        found = client.forget_limits(window) if forget else client.limits()
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(facts(_facts(found)))
    if found.windows:
        screen.print()
        screen.print(table(("WINDOW", "STATUS", "USED", "RESETS", "TOLD"), [_window(one) for one in found.windows]))
    if found.held:
        rows = [(one.task, STANDING[one.blocked_by], local(one.until) or "", one.because) for one in found.held]
        screen.print()
        screen.print(table(("TASK", "WAITS", "UNTIL", "WHY"), rows))


def _facts(found: LimitsView) -> list[tuple[str, Text | str | None]]:
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
