"""`state init|scan|get|transition|step|fail|resume-point`: operations on a state.json, for programs; JSON in and out.

A standalone workspace is changed under a lock. A task in a data folder belongs to its daemon: a running daemon is
asked, otherwise the change is one decision made in its place.
"""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Protocol

import orjson
import typer

from orchestrator import clock
from orchestrator.cli.context import CliContext, UsageError, context_of
from orchestrator.core.events.operations import FailureReport, OperationRefused, StepUpdate, Transition
from orchestrator.core.task.progress import StepStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.callers import Caller, run_above
from orchestrator.daemon.offline_state import OfflineTask, StandaloneWorkspace, is_task
from orchestrator.formats.codec import Json
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.families.tickets.standalone_state import InitialState
from orchestrator.pipelines.operation_parser import failure_of, step_of, transition_of
from orchestrator.server.client import Client
from orchestrator.settings.environment import environment
from orchestrator.settings.loading import load_settings
from orchestrator.storage.records import StoreInUse

LARGEST_DOCUMENT = 1024 * 1024
"""Bytes that are read from standard input."""
TOKEN = "ORCHESTRATOR_TOKEN"  # noqa: S105 - a variable's name

Document = Mapping[str, Json]
Workspace = Annotated[
    Path, typer.Argument(metavar="WORKSPACE", help="The folder with the state.json.", show_default=False)
]


class StateOperations(Protocol):
    """The operations on one state."""

    def get(self) -> Document: ...
    def resume_point(self) -> Document: ...
    def transition(self, move: Transition) -> Document: ...
    def step(self, update: StepUpdate) -> Document: ...
    def fail(self, report: FailureReport) -> Document: ...


state = typer.Typer(no_args_is_help=True, help="Read and change a state.json; for programs, JSON in and out.")


@state.command(epilog="Example: [bold]orchestrator state init work/STABLE-1234 --ticket STABLE-1234[/bold]")
def init(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    ticket: Annotated[str | None, typer.Option(help="The ticket's key; default: LOCAL-<time>.")] = None,
    type: Annotated[TicketType, typer.Option(help="The type of work.")] = TicketType.FEATURE,  # noqa: A002
    variant: Annotated[str, typer.Option(help="The pipeline.")] = "full",
    source: Annotated[
        str | None, typer.Option(help="Where the ticket comes from: jira, github, gitlab or local.")
    ] = None,
    autonomy: Annotated[Autonomy | None, typer.Option(help="Whether people answer questions.")] = None,
    on_blocked: Annotated[OnBlocked | None, typer.Option(help="What happens when all cycles are used up.")] = None,
    auto_merge: Annotated[bool, typer.Option("--auto-merge", help="Merge without approval by a person.")] = False,
) -> int:
    """Create a workspace; without a ticket, or with `--source local`, nobody is asked questions."""
    beginning = InitialState(
        ticket_id=ticket or f"LOCAL-{clock.now():%Y%m%d_%H%M%S}",
        ticket_type=type,
        variant=variant,
        source=source or ("jira" if ticket else "local"),
        autonomy=autonomy,
        on_blocked=on_blocked,
        auto_merge=auto_merge,
    )
    return _print(lambda: _lone(context_of(context), workspace).init(beginning))


@state.command(epilog="Example: [bold]orchestrator state scan work/STABLE-1234[/bold]")
def scan(context: typer.Context, workspace: Workspace) -> int:
    """Search a workspace's ticket.json for secrets, mask them and record the result; exit code 1 if it must stay."""
    folder = workspace.expanduser().resolve()
    if is_task(folder):
        raise UsageError("the ticket of a task was searched when it was submitted")
    answer = _lone(context_of(context), folder).scan(bundled_redactor())
    typer.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    return int(not answer["ok"])


@state.command(epilog="Example: [bold]orchestrator state get work/STABLE-1234[/bold]")
def get(context: typer.Context, workspace: Workspace) -> int:
    """Print the state of a workspace."""
    return _on(context, workspace, lambda found: found.get())


@state.command("resume-point", epilog="Example: [bold]orchestrator state resume-point work/STABLE-1234[/bold]")
def resume_point(context: typer.Context, workspace: Workspace) -> int:
    """Print where work continues."""
    return _on(context, workspace, lambda found: found.resume_point())


@state.command(
    epilog="Example: [bold]orchestrator state transition work/ABC-12 ANALYSIS PLANNING --artifact analysis.md[/bold]"
)
def transition(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    from_state: Annotated[str, typer.Argument(metavar="FROM", help="The present state.")],
    to_state: Annotated[str, typer.Argument(metavar="TO", help="The next state.")],
    artifact: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A file of the state that is left; repeatable.")
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, for a move to BLOCKED.")] = "",
) -> int:
    """Move from one state to another, if the guards are satisfied."""
    artifacts: list[Json] = [*(artifact or [])]
    asked: Document = {"from_state": from_state, "to_state": to_state, "artifacts": artifacts, "reason": reason}
    return _on(context, workspace, lambda found: found.transition(transition_of(asked)))


@state.command(epilog="Example: [bold]orchestrator state step work/STABLE-1234 2 completed --commit a1b2c3d[/bold]")
def step(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    step_id: Annotated[
        int | None, typer.Argument(metavar="STEP", help="The step's number; without it, JSON is read.")
    ] = None,
    status: Annotated[StepStatus | None, typer.Argument(help="Its new status.")] = None,
    commit: Annotated[list[str] | None, typer.Option(metavar="SHA", help="A commit of the step; repeatable.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="A JSON object, or null to remove the old one.")] = None,
) -> int:
    """Update a step, from options or as {step_id, status, checkpoint, commits} from standard input."""
    if (step_id is None) != (status is None):
        raise UsageError("give both the step's number and its status, or neither and JSON on standard input")
    commits: list[Json] = [*(commit or [])]
    noted: Document = {} if checkpoint is None else {"checkpoint": _json(checkpoint.encode(), "--checkpoint")}
    told = _told() if status is None else {"step_id": step_id, "status": status.value, "commits": commits, **noted}
    return _on(context, workspace, lambda found: found.step(step_of(told)))


@state.command(epilog="Example: [bold]orchestrator state fail work/STABLE-1234 < failure.json[/bold]")
def fail(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    summary: Annotated[str | None, typer.Option(help="What failed; without it, JSON is read.")] = None,
    type: Annotated[str, typer.Option(help="A word for the failure, such as test_failure.")] = "failure",  # noqa: A002
    agent: Annotated[str | None, typer.Option(help="The agent that failed.")] = None,
    step: Annotated[str | None, typer.Option(help="The step in which it failed.")] = None,
    command: Annotated[str | None, typer.Option(help="The command that was run.")] = None,
    exit_code: Annotated[int | None, typer.Option(help="The exit code of the command.")] = None,
) -> int:
    """Record a failure, from options or as a whole JSON entry from standard input."""
    given: Document = {
        "agent": agent,
        "step": step,
        "attempted_action": {"description": "", "command": command},
        "actual_outcome": {"type": type, "summary": summary, "exit_code": exit_code},
    }
    told = _told() if summary is None else given
    return _on(context, workspace, lambda found: _failed(found, told))


def _failed(found: StateOperations, told: Document) -> Document:
    """Record a failure; an entry without a state is recorded for the present one."""
    here = str(found.get()["current_state"]) if not told.get("state") else ""
    return found.fail(failure_of(told, here, clock.now()))


def _on(context: typer.Context, workspace: Path, request: Callable[[StateOperations], Document]) -> int:
    """Run an operation on the workspace, or ask the daemon it belongs to; an agent always asks its daemon."""
    folder = workspace.expanduser().resolve()
    options = context_of(context)
    if not is_task(folder):
        return _print(lambda: request(_lone(options, folder)))
    if run_above(os.getpid(), folder.parent) is not None:
        with _client(options, folder) as client:
            return _print(lambda: request(client.state_of(folder.name)))
    by = str(Caller(pid=os.getpid(), uid=os.getuid()))
    try:
        return _print(lambda: request(OfflineTask(folder, clock.now, by)))
    except StoreInUse:
        with _client(options, folder) as client:
            return _print(lambda: request(client.state_of(folder.name)))


def _client(options: CliContext, folder: Path) -> Client:
    given = {"data_dir": str(folder.parent.parent), "socket": options.socket and str(options.socket)}
    settings = load_settings(options.config, {name: value for name, value in given.items() if value is not None})
    return Client(settings.socket, token=environment().get(TOKEN, ""))


def _lone(options: CliContext, workspace: Path) -> StandaloneWorkspace:
    pipelines = load_definitions(options.settings().definition_folders()).pipelines
    by = str(Caller(pid=os.getpid(), uid=os.getuid()))
    return StandaloneWorkspace(workspace.expanduser().resolve(), pipelines, clock.now, by)


def _told() -> Document:
    """Return the JSON object on standard input. Raises UsageError."""
    found = _json(sys.stdin.buffer.read(LARGEST_DOCUMENT + 1), "standard input")
    if not isinstance(found, dict):
        raise UsageError("standard input must be a JSON object")
    return found


def _json(text: bytes, where: str) -> Json:
    if len(text) > LARGEST_DOCUMENT:
        raise UsageError(f"{where} is larger than {LARGEST_DOCUMENT} bytes")
    try:
        found: Json = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{where} is no JSON: {error}") from error
    return found


def _print(request: Callable[[], Document]) -> int:
    """Print the answer as JSON and return 0, or the refusal and return 1."""
    try:
        answer, code = request(), 0
    except OperationRefused as error:
        answer, code = error.document, 1
    typer.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    return code
