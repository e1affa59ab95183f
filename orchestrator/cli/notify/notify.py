"""`notify test|list|log`: try how people are told, and see what was told, held back or given up."""

from typing import Annotated

import typer
from rich.text import Text

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.output import ago, console, local, note, plain, print_json, table, to_minute
from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.server.client import Client
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.oversight.notifications import (
    ChannelView,
    DeliveryView,
    NoticeView,
    NotificationList,
    NotificationTestBody,
    TestedList,
)

SAID = {
    DeliveryStatus.WAITING: ("waiting", "yellow"),
    DeliveryStatus.SENT: ("sent", "green"),
    DeliveryStatus.IN_DIGEST: ("in a digest", "green"),
    DeliveryStatus.FAILED: ("given up", "bold red"),
}
FAILED = 1

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=500, metavar="N", help="How many at most.")]

notify = typer.Typer(no_args_is_help=True, help="Test how you are told, and see what was told.")


@notify.command("test", epilog="Example: [bold]orchestrator notify test mail[/bold]")
def try_out(
    context: typer.Context,
    channel: Annotated[
        str | None, typer.Argument(metavar="CHANNEL", help="A channel; without: each.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Send a test on a channel, or on each, and say what happened. Exits with 1 if one did not take it."""
    body = NotificationTestBody(channel=channel).model_dump(mode="json", by_alias=True)
    with context_of(context).client() as client:
        found = to_view(TestedList, client.exchange("POST", "/api/notifications/test", body), str)
    deliveries = [one for notice in found.notices for one in notice.deliveries]
    if json:
        print_json(found)
    else:
        for one in deliveries:
            console().print(_outcome(one), soft_wrap=True)
    if any(one.status is not DeliveryStatus.SENT for one in deliveries):
        raise typer.Exit(FAILED)


@notify.command("list", epilog="Example: [bold]orchestrator notify list[/bold]")
def list_(context: typer.Context, limit: Limit = 50, json: Json = False) -> None:
    """List the channels, and the notices that wait, are held back, or were given up on one."""
    with context_of(context).client() as client:
        found = _asked(client, f"open=true&limit={limit}")
    if json:
        print_json(found)
        return
    if not found.channels:
        note("no channel is set; `orchestrator help notifications` shows how")
        return
    console().print(table(("CHANNEL", "WORKS", "LAST", "WAITING", "WHY NOT"), map(_channel, found.channels)))
    if found.notices:
        console().print()
        _print_notices(found)


@notify.command(epilog="Example: [bold]orchestrator notify log --limit 20[/bold]")
def log(context: typer.Context, limit: Limit = 50, json: Json = False) -> None:
    """List the newest notices, and what became of each on every channel."""
    with context_of(context).client() as client:
        found = _asked(client, f"limit={limit}")
    if json:
        print_json(found)
    elif found.notices:
        _print_notices(found)
    else:
        note("nothing was told so far")


def _asked(client: Client, query: str) -> NotificationList:
    return to_view(NotificationList, client.exchange("GET", f"/api/notifications?{query}"), str)


def _print_notices(found: NotificationList) -> None:
    rows = [_row(notice, delivery) for notice in found.notices for delivery in notice.deliveries or (None,)]
    console().print(table(("TOLD", "KIND", "CHANNEL", "STATUS", "SUBJECT"), rows))


def _row(notice: NoticeView, delivery: DeliveryView | None) -> tuple[Text | str, ...]:
    head = to_minute(notice.at) or "", notice.kind
    subject = notice.subject.removeprefix("[orchestrator] ")
    if delivery is None:
        return (*head, "none", "", subject)
    name, style = SAID[delivery.status]
    if delivery.held_until is not None:
        name, subject = "held", f"{subject}; until {local(delivery.held_until)}"
    tries = f"{delivery.attempts} tries" if delivery.attempts > 1 else ""
    reason = delivery.reason if delivery.status is not DeliveryStatus.IN_DIGEST else ""
    more = ": ".join(filter(None, (tries, reason)))
    return (*head, delivery.channel, Text(name, style=style), f"{subject}; {more}" if more else subject)


def _status(one: DeliveryView) -> Text:
    name, style = SAID[one.status]
    if one.held_until is not None:
        name = f"held until {local(one.held_until)}"
    tries = f", {one.attempts} tries" if one.attempts > 1 else ""
    reason = f": {one.reason}" if one.reason and one.status is not DeliveryStatus.IN_DIGEST else ""
    return Text(f"{name}{tries}{reason}", style=style)


def _outcome(one: DeliveryView) -> Text:
    line = Text(f"{one.channel}: ", style="bold")
    if one.status is DeliveryStatus.WAITING:
        return line.append("not sent yet; `orchestrator notify log` will show what became of it", style="yellow")
    return line.append_text(_status(one))


def _channel(one: ChannelView) -> tuple[Text | str, ...]:
    if one.works:
        works = Text("yes" if one.worked_at else "not used yet", style="green" if one.worked_at else "")
    else:
        works = Text(f"does not work since {local(one.failing_since)}", style="bold red")
    last = f"{ago(one.worked_at)} ago" if one.worked_at else ""
    return one.name, works, last, str(one.waiting or ""), plain(one.reason)
