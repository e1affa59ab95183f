"""`plugin install` and `plugin uninstall`: slash commands and a skill for Claude Code that call this program."""

import shutil
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from orchestrator import __version__
from orchestrator.agents.claude_folder import OUR_PLUGIN, SKILLS, users_folder
from orchestrator.cli.context import Json, UsageError
from orchestrator.cli.output import console, line, note, print_json
from orchestrator.cli.plugin.installer import Outcome, install, uninstall
from orchestrator.settings.environment import environment

OF_USER, OF_PROJECT = f"{SKILLS}/{OUR_PLUGIN}", f".claude/{SKILLS}/{OUR_PLUGIN}"
"""Where Claude Code finds plugins by itself, below the user's folder of it and below a project's."""


class PluginView(BaseModel):
    """What was done to the plugin's folder, as `--json` prints it."""

    version: str
    folder: str
    written: tuple[str, ...]
    removed: tuple[str, ...]
    left: tuple[str, ...]


User = Annotated[bool, typer.Option("--user", help="For every session of yours; the default.")]
Project = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="For everybody who opens this project.", file_okay=False)
]

plugin = typer.Typer(no_args_is_help=True, help="Commands for Claude Code sessions that hand work to the daemon.")


@plugin.command("install", epilog="Example: [bold]orchestrator plugin install --project .[/bold]")
def install_(user: User = False, project: Project = None, json: Json = False) -> None:
    """Install the Claude Code plugin, or bring it up to date. Files that you changed are never overwritten."""
    done = install(*_place(user=user, project=project))
    if json:
        _print(done)
        return
    written = f"wrote {len(done.written)} files" if done.written or done.removed else "is up to date"
    console().print(str(done.folder), line(f"version {__version__}, {written}"), soft_wrap=True)
    _name_left(done)
    if shutil.which("orchestrator", path=environment().get("PATH")) is None:
        note("there is no `orchestrator` on PATH; the plugin's commands need it there")
    note("start a new session, or type /reload-plugins in one; then /orchestrator:status")


@plugin.command("uninstall", epilog="Example: [bold]orchestrator plugin uninstall[/bold]")
def uninstall_(user: User = False, project: Project = None, json: Json = False) -> None:
    """Remove the plugin; files that you changed are left."""
    done = uninstall(*_place(user=user, project=project))
    if json:
        _print(done)
        return
    console().print(str(done.folder), line(f"removed {len(done.removed)} files"), soft_wrap=True)
    _name_left(done)


def _place(*, user: bool, project: Path | None) -> tuple[Path, str]:
    """Return the folder that may be reached by links, and the plugin's below it. Raises UsageError."""
    if user and project is not None:
        raise UsageError("give --user or --project, not both")
    if project is None:
        return users_folder(environment()).path, OF_USER
    if not project.expanduser().is_dir():
        raise UsageError(f"there is no folder {str(project)!r:.200}")
    return project.expanduser().absolute(), OF_PROJECT


def _print(done: Outcome) -> None:
    print_json(
        PluginView(
            version=__version__,
            folder=str(done.folder),
            written=done.written,
            removed=done.removed,
            left=done.left,
        )
    )


def _name_left(done: Outcome) -> None:
    for name in done.left:
        note(f"left, because it was changed: {done.folder / name}")
