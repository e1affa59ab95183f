"""The program `orchestrator`: its commands, the options before them, and its exit codes.

Only the modules of commands that are named on the command line are imported: `tasks` need not wait for what `serve`
imports. Exit codes: 0 done, 1 failed, 2 bad usage, 3 the daemon cannot be reached, 4 no such thing, 5 not allowed
in this state, 130 interrupted.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from io import BytesIO, TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from orchestrator import __version__
from orchestrator.cli.commands_table import COMMANDS, Entry
from orchestrator.cli.context import CliContext, UnknownName, UsageError
from orchestrator.cli.output import complain
from orchestrator.errors import InvalidTransition, OrchestratorError
from orchestrator.formats.table import DefinitionError
from orchestrator.integrations.tickets.text.ticket import NoTicket
from orchestrator.server.client import DaemonUnreachable, RequestRefused

FAILED, BAD_USAGE, UNREACHABLE, NO_SUCH_TASK, NOT_ALLOWED, INTERRUPTED = 1, 2, 3, 4, 5, 130

EXIT_CODES = {
    "no-such-task": NO_SUCH_TASK,
    "no-such-checkpoint": NO_SUCH_TASK,
    "no-such-window": NO_SUCH_TASK,
    "no-such-request": NO_SUCH_TASK,
    "no-such-file": NO_SUCH_TASK,
    "no-such-ticket": NO_SUCH_TASK,
    "no-such-token": NO_SUCH_TASK,
    "no-such-channel": NO_SUCH_TASK,
    "no-channel": NOT_ALLOWED,
    "no-such-schedule": NO_SUCH_TASK,
    "schedule-exists": NOT_ALLOWED,
    "schedule-busy": NOT_ALLOWED,
    "not-allowed": NOT_ALLOWED,
    "answered-before": NOT_ALLOWED,
    "not-seen": NOT_ALLOWED,
    "bad-answer": BAD_USAGE,
    "at-work-already": NOT_ALLOWED,
    "name-taken": NOT_ALLOWED,
    "too-many-tokens": NOT_ALLOWED,
    "not-listening": NOT_ALLOWED,
    "ambiguous": BAD_USAGE,
    "malformed": BAD_USAGE,
    "refused": BAD_USAGE,
}


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without ✓ must not make output fail
    sys.stdin = sys.stdin or TextIOWrapper(BytesIO())  # None if it was closed when this program was started
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    command = typer.main.get_command(build_app(arguments))
    try:
        code: object = command.main(args=[*arguments] or ["--help"], prog_name="orchestrator", standalone_mode=False)
    except typer.TyperException as error:
        used = str(getattr(getattr(error, "ctx", None), "command_path", "orchestrator"))
        said = error.format_message().rstrip(".").replace("Value error, ", "")
        if not said:  # a group without a command has shown its help
            return BAD_USAGE
        complain(f"{said}{' ' if said.endswith('?') else '; '}`{used} --help` shows how it is used")
        return BAD_USAGE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OrchestratorError as error:
        complain(*_lines(error))
        return _exit_code(error)
    except OSError as error:
        complain(f"{error.filename or 'the output'}: {error.strerror or error}")
        return FAILED
    return code if isinstance(code, int) else 0


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """Build the program for these arguments; commands that they do not name are listed but not loaded."""
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.callback(help="Walks tickets through pipelines of coding agents, unattended.")(_options)
    for name, entry in COMMANDS.items():
        example = f"Example: [bold]{entry.example}[/bold]"
        found = _loaded(name, entry) if name in arguments else _unloaded
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, short_help=entry.summary, epilog=example, rich_help_panel=entry.panel)
        else:
            app.command(name, short_help=entry.summary, epilog=example, rich_help_panel=entry.panel)(found)
    return app


def _loaded(name: str, entry: Entry) -> Callable[..., object] | typer.Typer:
    """Return the function of a command, or its group of commands."""
    function = f"{name}_" if iskeyword(name) else name.replace("-", "_")
    module = importlib.import_module(f"orchestrator.cli.{entry.module}")
    found: Callable[..., object] | typer.Typer = getattr(module, function)
    return found


def _unloaded() -> None:
    """A placeholder in the list for a command that is not named on the command line."""


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orchestrator {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    data_dir: Annotated[Path | None, typer.Option(help="Where the daemon keeps its tasks.")] = None,
    config: Annotated[Path | None, typer.Option(help="An additional orchestrator.toml, read last.")] = None,
    socket: Annotated[Path | None, typer.Option(help="The daemon's socket.")] = None,
    _: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    context.obj = CliContext(data_dir=data_dir, config=config, socket=socket)


def _lines(error: OrchestratorError) -> list[str]:
    return [str(problem) for problem in error.problems] if isinstance(error, DefinitionError) else [str(error)]


def _exit_code(error: OrchestratorError) -> int:
    if isinstance(error, UsageError | NoTicket):
        return BAD_USAGE
    if isinstance(error, UnknownName):
        return NO_SUCH_TASK
    if isinstance(error, DaemonUnreachable):
        return UNREACHABLE
    if isinstance(error, InvalidTransition):
        return NOT_ALLOWED
    if isinstance(error, RequestRefused):
        return EXIT_CODES.get(error.kind, FAILED)
    return FAILED
