"""The program `orchestrator`: its commands, the options before them, and its exit codes.

Only the modules of commands that are named on the command line are imported: `tasks` need not wait for what `serve`
imports. Exit codes: 0 done, 1 failed, 2 bad usage, 3 the daemon cannot be reached, 4 no such thing, 5 not allowed
in this state, 130 interrupted, 141 nobody reads the output any more.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from io import BytesIO, TextIOWrapper
from pathlib import Path
from shlex import quote
from typing import Annotated

import orjson
import typer
from typer.core import TyperGroup

from orchestrator import __version__
from orchestrator.cli.commands_table import COMMANDS
from orchestrator.cli.parsing.aliases import expand
from orchestrator.cli.parsing.errors import UnknownName, UsageError
from orchestrator.cli.parsing.hints import in_plain_words, option_hint
from orchestrator.cli.parsing.lazy import LazyGroup, add_command, hide_completion
from orchestrator.cli.parsing.options import Format, GlobalOptions, json_everywhere, wants_json
from orchestrator.cli.parsing.topics import help_topics
from orchestrator.cli.terminal import complain
from orchestrator.errors import InvalidTransition, NotPossibleNow, OrchestratorError
from orchestrator.formats.files import owned_by_another
from orchestrator.formats.table import DefinitionError
from orchestrator.integrations.errors import NoTicket
from orchestrator.server.errors import DaemonUnreachable, RequestRefused

FAILED, BAD_USAGE, UNREACHABLE, NO_SUCH_TASK, NOT_ALLOWED, INTERRUPTED = 1, 2, 3, 4, 5, 130
UNREAD = 141
"""As a shell tells of a program that SIGPIPE ended."""

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
    "work-would-be-lost": NOT_ALLOWED,
    "answered-before": NOT_ALLOWED,
    "not-seen": NOT_ALLOWED,
    "bad-answer": BAD_USAGE,
    "at-work-already": NOT_ALLOWED,
    "name-taken": NOT_ALLOWED,
    "delivered-before": NOT_ALLOWED,
    "too-many-tokens": NOT_ALLOWED,
    "not-listening": NOT_ALLOWED,
    "ambiguous": BAD_USAGE,
    "malformed": BAD_USAGE,
    "refused": BAD_USAGE,
}

PROBLEMS: Mapping[int, tuple[str, str, int]] = {
    FAILED: ("failed", "It failed", HTTPStatus.UNPROCESSABLE_ENTITY),
    BAD_USAGE: ("bad-usage", "The command was used wrongly", HTTPStatus.BAD_REQUEST),
    UNREACHABLE: ("unreachable", "The daemon cannot be reached", HTTPStatus.SERVICE_UNAVAILABLE),
    NO_SUCH_TASK: ("no-such-name", "There is nothing of that name", HTTPStatus.NOT_FOUND),
    NOT_ALLOWED: ("not-allowed", "The task's state does not allow this", HTTPStatus.CONFLICT),
}
"""Kind, title and status of the problem documents for errors of this program itself, by exit code."""


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without ✓ must not make output fail
    sys.stdin = sys.stdin or TextIOWrapper(BytesIO())  # None if it was closed when this program was started
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    try:
        code = _run(arguments)
    except typer.TyperException as error:
        if not error.format_message():  # a group without a command has shown its help
            return BAD_USAGE
        return _refused(arguments, BAD_USAGE, [_usage(error)])
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OrchestratorError as error:
        return _refused(arguments, _exit_code(error), _lines(error), error)
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _let_go_of_output()
        return UNREAD
    except BrokenPipeError:
        _let_go_of_output()
        return UNREAD
    except OSError as error:
        return _refused(arguments, FAILED, [_why_not(error)])
    return code if isinstance(code, int) else 0


def _let_go_of_output() -> None:
    """Send the rest of the output nowhere: it cannot be written, and the interpreter would fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> object:
    """Run a command and return what its function returned."""
    words = expand(arguments, COMMANDS, help_topics() if "help" in arguments else ())
    command = typer.main.get_command(build_app())
    hide_completion(command)
    result: object = command.main(args=words, prog_name="orchestrator", standalone_mode=False)
    return result


def build_app(loaded: Sequence[str] = ()) -> typer.Typer:
    """Build the program; commands that are not `loaded` are listed, and loaded when they are asked for."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help="Walks tickets through pipelines of coding agents, unattended.")(_options)
    for name, entry in COMMANDS.items():
        add_command(app, name, entry, load=name in loaded)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orchestrator {__version__}")
        raise typer.Exit


def _options(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    data_dir: Annotated[Path | None, typer.Option(help="Where the daemon keeps its tasks.", readable=False)] = None,
    config: Annotated[Path | None, typer.Option(help="An additional orchestrator.toml, read last.")] = None,
    socket: Annotated[Path | None, typer.Option(help="The daemon's socket.", readable=False)] = None,
    json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
    output: Annotated[Format | None, typer.Option("--output", "-o", hidden=True)] = None,
    _: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    context.obj = GlobalOptions(data_dir=data_dir, config=config, socket=socket)
    if isinstance(context.command, TyperGroup) and (json or output is Format.JSON):
        context.default_map = json_everywhere(context.command)


def _usage(error: typer.TyperException) -> str:
    used = str(getattr(getattr(error, "ctx", None), "command_path", "orchestrator"))
    said = in_plain_words(" ".join(error.format_message().split()).rstrip("."))
    if hint := option_hint(used.partition(" ")[2], str(getattr(error, "option_name", ""))):
        return f"{said}; {hint}"
    return f"{said}{' ' if said.endswith('?') else '; '}`{used} --help` shows how it is used"


def _refused(arguments: Sequence[str], code: int, lines: Sequence[str], error: Exception | None = None) -> int:
    """Print an error, under --json as a problem document on standard output too, and return the exit code."""
    complain(*lines)
    document = ""
    if wants_json(arguments):
        problem = _answered(error) if isinstance(error, RequestRefused) else _problem(code, lines)
        document = orjson.dumps(problem, option=orjson.OPT_INDENT_2).decode()
    try:
        typer.echo(document, nl=bool(document))  # even nothing: that writes what is still to be written
    except OSError:
        _let_go_of_output()
    return code


def _answered(error: RequestRefused) -> dict[str, object]:
    return error.problem.model_dump(mode="json", by_alias=True, exclude_none=True)


def _problem(code: int, lines: Sequence[str]) -> dict[str, object]:
    """Return the problem document of an error that no daemon answered with."""
    kind, title, status = PROBLEMS.get(code, PROBLEMS[FAILED])
    return {
        "type": f"urn:orchestrator:problem:{kind}",
        "title": title,
        "status": int(status),
        "detail": "\n".join(lines),
    }


def _lines(error: OrchestratorError) -> list[str]:
    return [str(problem) for problem in error.problems] if isinstance(error, DefinitionError) else [str(error)]


def _why_not(error: OSError) -> str:
    """Say what the system refused, and of what belongs to another user who may do it."""
    said = f"{error.filename or 'the output'}: {error.strerror or error}"
    is_hidden = isinstance(error, PermissionError) and isinstance(error.filename, str)
    owner = owned_by_another(Path(error.filename)) if is_hidden else None
    hint = f"; it belongs to {owner}, try again as that user: sudo -u {quote(owner)} orchestrator …" if owner else ""
    return said + hint


def _exit_code(error: OrchestratorError) -> int:
    if isinstance(error, UsageError | NoTicket):
        return BAD_USAGE
    if isinstance(error, UnknownName):
        return NO_SUCH_TASK
    if isinstance(error, DaemonUnreachable):
        return UNREACHABLE
    if isinstance(error, InvalidTransition | NotPossibleNow):
        return NOT_ALLOWED
    if isinstance(error, RequestRefused):
        return EXIT_CODES.get(error.kind, FAILED)
    return FAILED
