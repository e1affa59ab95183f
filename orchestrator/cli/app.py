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
from typing import Annotated, NamedTuple

import typer

from orchestrator import __version__
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


class Entry(NamedTuple):
    """A command: the module with the function or group of its name, and what the list of commands shows."""

    module: str
    summary: str
    example: str
    panel: str


COMMANDS = {
    "demo": Entry(
        "demo.demo", "Watch one ticket go through everything, without an account.", "orchestrator demo", "Begin here"
    ),
    "doctor": Entry(
        "commands.doctor", "Check what would stop an unattended night.", "orchestrator doctor", "Begin here"
    ),
    "check": Entry(
        "commands.definitions",
        "Validate settings, pipelines and roles.",
        "orchestrator check ~/.config/orchestrator",
        "Begin here",
    ),
    "graph": Entry(
        "commands.definitions", "Draw a pipeline.", "orchestrator graph full --format mermaid", "Begin here"
    ),
    "simulate": Entry(
        "commands.simulate",
        "Simulate a week of work, in seconds.",
        "orchestrator simulate --tasks 60",
        "Begin here",
    ),
    "help": Entry("commands.help", "Read a page of the documentation.", "orchestrator help checks", "Begin here"),
    "serve": Entry("commands.serve", "Run the daemon in the foreground.", "orchestrator serve", "Begin here"),
    "open": Entry("access.browser", "Open the pages in a browser.", "orchestrator open", "Begin here"),
    "submit": Entry(
        "commands.submit",
        "Submit a ticket.",
        "orchestrator submit 'Add a --json flag to list' --check test='pytest -q'",
        "Tasks",
    ),
    "import": Entry(
        "commands.submit",
        "Take over a workspace that was begun without a daemon.",
        "orchestrator import .coding-agent/tickets/STABLE-1234_20260528_120000",
        "Tasks",
    ),
    "tasks": Entry("commands.show", "List tasks, newest first.", "orchestrator tasks --status in_progress", "Tasks"),
    "show": Entry("commands.show", "Show one task in full.", "orchestrator show ABC-123", "Tasks"),
    "why": Entry("commands.show", "Explain why a task waits.", "orchestrator why ABC-123", "Tasks"),
    "logs": Entry("commands.streams", "Read an agent's transcript.", "orchestrator logs ABC-123 -f", "Tasks"),
    "checkpoints": Entry(
        "commands.checkpoints",
        "List and restore saved work.",
        "orchestrator checkpoints list ABC-123",
        "Tasks",
    ),
    "events": Entry("commands.streams", "List what happens to tasks.", "orchestrator events -f", "Tasks"),
    "watch": Entry("commands.watch", "Watch everything on one live screen.", "orchestrator watch", "Tasks"),
    "answer": Entry(
        "commands.respond", "Answer an agent's question.", "orchestrator answer ABC-123 SQLite", "Your part"
    ),
    "provide": Entry(
        "commands.respond", "Provide what an agent needs.", "orchestrator provide ABC-123 API_KEY", "Your part"
    ),
    "approve": Entry("commands.respond", "Approve work under review.", "orchestrator approve ABC-123", "Your part"),
    "request-changes": Entry(
        "commands.respond",
        "Send work under review back.",
        "orchestrator request-changes ABC-123 -m 'Shorter, please'",
        "Your part",
    ),
    "pause": Entry("commands.control", "Pause a task.", "orchestrator pause ABC-123", "Tasks"),
    "resume": Entry("commands.control", "Resume a paused task.", "orchestrator resume ABC-123", "Tasks"),
    "transition": Entry(
        "commands.control",
        "Force a task into a stage.",
        "orchestrator transition ABC-123 PLANNING --force --reason 'the plan was lost'",
        "Tasks",
    ),
    "cancel": Entry("commands.control", "Cancel a task.", "orchestrator cancel ABC-123", "Tasks"),
    "retry": Entry("commands.control", "Retry the stage of a blocked task.", "orchestrator retry ABC-123", "Tasks"),
    "budget": Entry("commands.control", "Set a task's budget.", "orchestrator budget ABC-123 --usd 20", "Tasks"),
    "review": Entry(
        "commands.publish", "Handle new review comments on a pull request.", "orchestrator review ABC-123", "Your part"
    ),
    "merge": Entry("commands.publish", "Merge a task's pull request.", "orchestrator merge ABC-123", "Your part"),
    "download": Entry(
        "commands.publish", "Download what a task made as a ZIP archive.", "orchestrator download ABC-123", "Tasks"
    ),
    "archive": Entry("commands.publish", "Archive an ended task.", "orchestrator archive ABC-123", "Tasks"),
    "delete": Entry("commands.publish", "Delete a draft or an ended task.", "orchestrator delete ABC-123", "Tasks"),
    "drain": Entry(
        "commands.control", "End all agents before a restart; their sessions are kept.", "orchestrator drain", "Tasks"
    ),
    "limits": Entry("commands.status", "Show usage windows and the day's budget.", "orchestrator limits", "Tasks"),
    "report": Entry(
        "reports.report",
        "Read what happened since a time, as in the morning.",
        "orchestrator report --since 22:00",
        "Tasks",
    ),
    "metrics": Entry(
        "monitoring.metrics",
        "Show metrics, and print rules and a dashboard for them.",
        "orchestrator metrics rules | sudo tee /etc/prometheus/orchestrator.rules.yaml",
        "For programs",
    ),
    "state": Entry(
        "commands.state",
        "Read and change a state.json.",
        "orchestrator state get work/ABC-12",
        "For programs",
    ),
    "token": Entry(
        "access.token",
        "Say which programs may ask over TCP.",
        "orchestrator token create phone --scope view",
        "For programs",
    ),
    "plugin": Entry(
        "plugin.plugin",
        "Install commands for Claude Code sessions.",
        "orchestrator plugin install",
        "For programs",
    ),
    "mcp": Entry(
        "assistants.mcp",
        "Give an assistant the tools of this daemon.",
        "claude mcp add orchestrator -- orchestrator mcp",
        "For programs",
    ),
    "schema": Entry(
        "commands.definitions", "Print a JSON Schema for editors.", "orchestrator schema state", "For programs"
    ),
    "status": Entry(
        "commands.status", "Show the daemon, its queue and running agents.", "orchestrator status", "Tasks"
    ),
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
