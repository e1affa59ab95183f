"""`report`: the morning report, of the last 24 hours or since a time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

import typer

from orchestrator.cli.context import Json, context_of
from orchestrator.formats.codec import stamp
from orchestrator.server.report_texts import ReportFormat, as_text
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.reports import ReportView

_AGO = re.compile(r"(\d{1,5})(m|h|d)")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


def parse_past(text: str) -> datetime:
    """Return the time that a person means: `22:30` (the last one), `8h` or `2d` (ago), `yesterday`, or ISO 8601."""
    now = datetime.now().astimezone()
    try:
        if found := _AGO.fullmatch(text):
            return now - int(found[1]) * _UNITS[found[2]]
        if text == "yesterday":
            return (now - timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        if len(text) == len("HH:MM"):
            clock = datetime.strptime(text, "%H:%M")  # noqa: DTZ007 - only its hour and minute are taken
            at = now.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
            return at if at <= now else at - timedelta(days=1)
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        said = f"{text!r} is not a time; write 22:30, 8h, 2d, yesterday or 2026-05-28T22:30"
        raise typer.BadParameter(said) from None


def report(
    context: typer.Context,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=parse_past, help="From this time; default: 24 hours ago."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(metavar="TIME", parser=parse_past, help="To this time; default: now.")
    ] = None,
    wanted: Annotated[
        ReportFormat, typer.Option("--format", metavar="FORMAT", help="text, markdown, html or json.")
    ] = ReportFormat.TEXT,
    json: Json = False,
) -> None:
    """Report what was finished, what waits for you, what failed and why, and what it cost."""
    given = {"since": since, "until": until}
    query = urlencode({name: stamp(at) for name, at in given.items() if at is not None})
    with context_of(context).client() as client:
        found = to_view(ReportView, client.exchange("GET", f"/api/report?{query}"), str)
    zone = datetime.now().astimezone().tzinfo or UTC
    typer.echo(as_text(found, ReportFormat.JSON if json else wanted, zone), nl=False)
