"""`open`: the pages of the daemon in a browser, logged in by a link that works once."""

import getpass
import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from orchestrator.cli.context import Json, context_of
from orchestrator.cli.output import console, note, print_json
from orchestrator.daemon.access.scopes import Scope
from orchestrator.server.access.client import AccessClient
from orchestrator.server.schemas.tokens import LinkBody
from orchestrator.settings.environment import environment

PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={}"><title>orchestrator</title>'


def open(  # noqa: A001 - commands are found by their names
    context: typer.Context,
    only_print: Annotated[bool, typer.Option("--print", help="Print the link instead of opening a browser.")] = False,
    scope: Annotated[Scope | None, typer.Option(help="What the browser may do: view, operate or admin.")] = None,
    json: Json = False,
) -> None:
    """Open the pages in a browser, logged in by a link that works once within five minutes.

    Over ssh, or without a screen, the link is printed. The daemon must listen: `listen = "127.0.0.1:8700"`.
    """
    with context_of(context).client() as client:
        made = AccessClient(client).link(LinkBody(scope=scope))
    env = environment()
    if json:
        print_json(made)
        return
    has_screen = bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")) and not env.get("SSH_CONNECTION")
    if not only_print and has_screen and _opened(made.url, env.get("XDG_RUNTIME_DIR")):
        note("if no browser appears, `orchestrator open --print` prints a link for it")
        return
    console().print(made.url, soft_wrap=True)
    if address := env.get("SSH_CONNECTION"):
        note(f"on the machine of the browser, first: {_tunnel(address, made.url)}")
    note("the link works once, within five minutes")


def _opened(url: str, private: str | None) -> bool:
    """Open a browser on a private file that leads to the link: other users can read the arguments of programs."""
    descriptor, path = tempfile.mkstemp(prefix="orchestrator-", suffix=".html", dir=private)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(PAGE.format(escape(url)))
    return webbrowser.open(Path(path).as_uri())


def _tunnel(connection: str, url: str) -> str:
    """Return the command that lets a browser on the other side of an ssh connection reach the port."""
    _, _, host, port = (connection.split() + [""] * 4)[:4]
    there = urlsplit(url).netloc
    other = f" -p {port}" if port not in {"", "22"} else ""
    return f"ssh -L {urlsplit(url).port}:{there}{other} {getpass.getuser()}@{host}"
