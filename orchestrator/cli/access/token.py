"""`token create|list|revoke`: tokens of programs that ask over TCP, and the sessions of browsers."""

import re
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.text import Text

from orchestrator.cli.context import Json, UsageError, context_of, parse_options
from orchestrator.cli.output import ago, console, local, note, plain, print_json, table
from orchestrator.daemon.access.scopes import Scope
from orchestrator.server.access.client import AccessClient
from orchestrator.server.schemas.tokens import TokenBody, TokenView

HEADINGS = ("NAME", "SCOPE", "CREATED", "LAST USE", "EXPIRES")
_LASTS = re.compile(r"([1-9][0-9]{0,3})([dh])")
_HOURS_PER_DAY = 24

Name = Annotated[str, typer.Argument(metavar="NAME", help="The token's name.", show_default=False)]

token = typer.Typer(no_args_is_help=True, help="Say which programs and browsers may ask the daemon over TCP.")


@token.command(epilog="Example: [bold]orchestrator token create phone --scope view --expires 30d[/bold]")
def create(
    context: typer.Context,
    name: Name,
    scope: Annotated[Scope, typer.Option(help="view reads, operate also writes, admin also manages tokens.")],
    expires: Annotated[
        str | None, typer.Option(metavar="30d", help="Days or hours (12h) until it expires; without: never.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a token. It is printed this once: nothing stores it."""
    days = None if expires is None else _days(expires)
    body = parse_options(TokenBody, {"name": name, "scope": scope, "expires_days": days})
    with context_of(context).client() as client:
        made = AccessClient(client).create(body)
    if json:
        print_json(made)
        return
    note("nobody can see it again; programs send it as `Authorization: Bearer …`")
    console().print(made.token, soft_wrap=True)


@token.command("list", epilog="Example: [bold]orchestrator token list[/bold]")
def list_(context: typer.Context, json: Json = False) -> None:
    """List every token and every session of a browser, newest first."""
    with context_of(context).client() as client:
        found = AccessClient(client).tokens()
    if json:
        print_json(found)
    elif found.tokens:
        console().print(table(HEADINGS, [_row(one) for one in found.tokens]))
    else:
        note("there is no token and no session; `orchestrator token create` and `orchestrator open` make them")


@token.command(epilog="Example: [bold]orchestrator token revoke phone[/bold]")
def revoke(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A token; or browser:ada, all sessions of ada.")],
    json: Json = False,
) -> None:
    """Make a token, or all sessions of a user's browsers, invalid at once."""
    with context_of(context).client() as client:
        done = AccessClient(client).revoke(name)
    if json:
        print_json(done)
    else:
        console().print(f"{plain(name)} is no longer valid", soft_wrap=True)


def _days(text: str) -> float:
    found = _LASTS.fullmatch(text)
    if found is None:
        raise UsageError(f"--expires: {text!r:.40} is no duration; write 30d or 12h")
    return int(found[1]) / (1 if found[2] == "d" else _HOURS_PER_DAY)


def _row(one: TokenView) -> tuple[Text | str, ...]:
    name = one.name if one.kind == "token" else f"{one.kind}:{one.name}"
    has_ended = one.expires_at is not None and one.expires_at <= datetime.now(UTC)
    until = "expired" if has_ended else local(one.expires_at) or "never"
    used = f"{ago(one.used_at)} ago" if one.used_at else "never"
    return plain(name), one.scope, local(one.created_at) or "", used, until
