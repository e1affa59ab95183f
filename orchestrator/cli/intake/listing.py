"""`intake`: what came in by itself, and how its sources are."""

from typing import Annotated

import typer
from rich.text import Text

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.output import ago, console, facts, plain, print_json, table, to_minute
from orchestrator.daemon.intake.records import IntakeKind
from orchestrator.server.schemas.intake.intake import (
    InboxView,
    IntakeFilter,
    IntakeRecordView,
    IntakeView,
    QueryView,
)

COLOURS = {IntakeKind.TAKEN: "green", IntakeKind.REFUSED: "bold red", IntakeKind.FAILED: "yellow"}


def intake(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many are listed.", min=1, max=500)] = 30,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused, with the reason.")] = False,
    json: Json = False,
) -> None:
    """Show the inbox, the queries and the webhooks, and what came in from them, newest first."""
    with context_of(context).client() as client:
        found = client.intake(IntakeFilter(limit=limit, refused=refused))
    if json:
        print_json(found)
        return
    screen = console()
    screen.print(facts(_sources(found)))
    if found.records:
        screen.print()
        screen.print(table(("WHEN", "SOURCE", "CAME TO", "NAME", "TASK OR REASON"), list(map(_line, found.records))))


def _sources(found: IntakeView) -> list[tuple[str, Text | str | None]]:
    inbox = found.inbox
    rows: list[tuple[str, Text | str | None]] = []
    if inbox.folder is not None:
        rows.append(("inbox", f"{inbox.folder}, {inbox.waiting} files wait there; {_share(inbox)}"))
        rows.append(("because", plain(inbox.trouble) or None))
    for query in found.queries:
        polled = f"asked {ago(query.polled_at)} ago" if query.polled_at else "not asked yet"
        counts = f"{query.taken} taken, {query.refused} refused; {_share(query)}"
        rows.append((f"query {query.name}", f"{plain(query.asks)}; {polled}, every {query.every:g} s; {counts}"))
        rows.append(("because", plain(query.trouble) or None))
    for hook in found.hooks:
        rows.append((f"hook {hook.name}", f"POST {hook.path} wakes the query {hook.query}"))
        rows.append(("because", hook.trouble or None))
    return rows or [("sources", "none; `orchestrator help inbox` says how work comes in by itself")]


def _share(source: InboxView | QueryView) -> str:
    return f"{source.tasks_waiting} of its tasks wait for a slot, at most {source.most_waiting}"


def _line(one: IntakeRecordView) -> tuple[Text | str, ...]:
    what = Text(one.kind.value, style=COLOURS.get(one.kind, ""))
    why = " ".join(filter(None, (one.task, plain(one.reason))))
    return to_minute(one.at) or "", one.source, what, plain(one.name), why
