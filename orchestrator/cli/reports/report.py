"""`report`: the morning report, of the last 24 hours or since a time."""

from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

import typer

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.labels import language
from orchestrator.cli.times import past_time
from orchestrator.formats.codec import stamp
from orchestrator.server.report_texts import ReportFormat, as_text
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.reports import ReportView


def report(
    context: typer.Context,
    since: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", parser=past_time, help="From this time; default: 24 hours ago."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(metavar="TIME", parser=past_time, help="To this time; default: now.")
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
    typer.echo(as_text(found, ReportFormat.JSON if json else wanted, zone, language().value), nl=False)
