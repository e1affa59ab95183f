"""`help`: the pages of documentation that the package carries, one Markdown file for each topic."""

import shlex
import shutil
import subprocess
from importlib.resources import files
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.markdown import Markdown

from orchestrator.cli.context import Json, UnknownName
from orchestrator.cli.output import console, note, print_json, table
from orchestrator.formats.table import nearest
from orchestrator.settings.environment import environment

WIDEST = 120
"""Columns of the terminal that a page takes at most."""
LESS = "less"
KEEPS_COLOURS = "FRX"
"""The value of LESS unless the user sets one; git uses the same."""


class Page(BaseModel):
    """One page, as Markdown."""

    topic: str
    text: str


class Topic(BaseModel):
    """A page in the list of them; `about` is its heading."""

    topic: str
    about: str


class Topics(BaseModel):
    """Every page there is, by name."""

    topics: tuple[Topic, ...]


def help(  # noqa: A001 - commands are found by their names
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="A page; without one they are listed.")] = None,
    json: Json = False,
) -> None:
    """Show a page of the documentation, or list all pages. Needs no daemon."""
    pages = read_pages()
    if topic is None:
        _list(pages, json=json)
        return
    if topic not in pages:
        raise UnknownName(f"there is no page {topic!r:.60}; {nearest(topic, pages)}")
    if json:
        print_json(Page(topic=topic, text=pages[topic]))
        return
    screen = console()
    if screen.is_terminal:
        _show(screen, pages[topic])
    else:
        typer.echo(pages[topic], nl=False)


def read_pages() -> dict[str, str]:
    """Return the Markdown of every page by its topic, in alphabetical order."""
    found = (files("orchestrator") / "help").iterdir()
    by_topic = {file.name.removesuffix(".md"): file.read_text("utf-8") for file in found if file.name.endswith(".md")}
    return dict(sorted(by_topic.items()))


def heading(text: str) -> str:
    """Return the first line of a page, which says what it is about."""
    return text.partition("\n")[0].removeprefix("# ")


def _list(pages: dict[str, str], *, json: bool) -> None:
    topics = tuple(Topic(topic=name, about=heading(text)) for name, text in pages.items())
    if json:
        print_json(Topics(topics=topics))
        return
    console().print(table(("TOPIC", "WHAT"), [(one.topic, one.about) for one in topics]))
    note("read one: orchestrator help TOPIC")


def _show(screen: Console, text: str) -> None:
    """Show a page on a terminal; one that is longer than the terminal goes through the pager."""
    with screen.capture() as captured:
        screen.print(Markdown(text, code_theme="ansi_dark"), width=min(screen.width, WIDEST))
    rendered = captured.get()
    variables = environment()
    pager = shlex.split(variables.get("PAGER") or LESS)
    if rendered.count("\n") < screen.height or not pager or shutil.which(pager[0]) is None:
        screen.file.write(rendered)
        return
    subprocess.run(pager, input=rendered, text=True, check=False, env={"LESS": KEEPS_COLOURS, **variables})
