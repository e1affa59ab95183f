"""`state init|get|transition|step|fail|resume-point`: the six operations of seed 000, for programs; JSON in and out.

A workspace that no daemon keeps is changed under a lock. A task of a data folder is its daemon's business: while one is
at work it is asked, and otherwise the change is one decision made in its place.
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
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.families.tickets.standalone_state import InitialState
from orchestrator.pipelines.operation_parser import failure_of, step_of, transition_of
from orchestrator.server.client import Client
from orchestrator.settings import environment, load_settings
from orchestrator.storage.records import StoreInUse

LARGEST_DOCUMENT = 1024 * 1024
"""Bytes that are read of standard input."""
TOKEN = "ORCHESTRATOR_TOKEN"  # noqa: S105 - a variable's name

Document = Mapping[str, Json]
Workspace = Annotated[
    Path, typer.Argument(metavar="WORKSPACE", help="The folder with the state.json.", show_default=False)
]
Names = Annotated[list[str] | None, typer.Option(help="Repeatable.")]


class Operated(Protocol):
    """A state that operations can be asked of."""

    def get(self) -> Document: ...
    def resume_point(self) -> Document: ...
    def transition(self, move: Transition) -> Document: ...
    def step(self, update: StepUpdate) -> Document: ...
    def fail(self, report: FailureReport) -> Document: ...


state = typer.Typer(no_args_is_help=True, help="The six operations on a state.json, for programs: JSON in and out.")


@state.command(epilog="Example: [bold]orchestrator state init work/STABLE-1234 --ticket STABLE-1234[/bold]")
def init(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    ticket: Annotated[str | None, typer.Option(help="Its key; LOCAL-<time> without one.")] = None,
    type: Annotated[TicketType, typer.Option(help="What kind of work it asks for.")] = TicketType.FEATURE,  # noqa: A002
    variant: Annotated[str, typer.Option(help="The pipeline.")] = "full",
    source: Annotated[str | None, typer.Option(help="Where it comes from: jira, github, gitlab or local.")] = None,
    autonomy: Annotated[Autonomy | None, typer.Option(help="Who answers questions.")] = None,
    on_blocked: Annotated[OnBlocked | None, typer.Option(help="What happens when every cycle is used up.")] = None,
    auto_merge: Annotated[bool, typer.Option("--auto-merge", help="Merge without a person's word.")] = False,
) -> int:
    """Begin a workspace; without a ticket, or with `--source local`, nobody is asked anything in it."""
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


@state.command(epilog="Example: [bold]orchestrator state get work/STABLE-1234[/bold]")
def get(context: typer.Context, workspace: Workspace) -> int:
    """Say where a workspace stands."""
    return _on(context, workspace, lambda found: found.get())


@state.command("resume-point", epilog="Example: [bold]orchestrator state resume-point work/STABLE-1234[/bold]")
def resume_point(context: typer.Context, workspace: Workspace) -> int:
    """Say where work goes on."""
    return _on(context, workspace, lambda found: found.resume_point())


@state.command(
    epilog="Example: [bold]orchestrator state transition work/ABC-12 ANALYSIS PLANNING --artifact analysis.md[/bold]"
)
def transition(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    from_state: Annotated[str, typer.Argument(metavar="FROM", help="Where it is now.")],
    to_state: Annotated[str, typer.Argument(metavar="TO", help="Where it shall go.")],
    artifact: Names = None,
    reason: Annotated[str, typer.Option(help="Why, where it goes to BLOCKED.")] = "",
) -> int:
    """Go from one state to another, if the guards of that way let it."""
    artifacts: list[Json] = [*(artifact or [])]
    asked: Document = {"from_state": from_state, "to_state": to_state, "artifacts": artifacts, "reason": reason}
    return _on(context, workspace, lambda found: found.transition(transition_of(asked)))


@state.command(epilog="Example: [bold]orchestrator state step work/STABLE-1234 2 completed --commit a1b2c3d[/bold]")
def step(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    step_id: Annotated[int | None, typer.Argument(metavar="STEP", help="Its number; without it, JSON is read.")] = None,
    status: Annotated[StepStatus | None, typer.Argument(help="How far it is now.")] = None,
    commit: Names = None,
    checkpoint: Annotated[str | None, typer.Option(help="A JSON object, or null to forget the old one.")] = None,
) -> int:
    """Take in news of a step: from options, or as {step_id, status, checkpoint, commits} from standard input."""
    if (step_id is None) != (status is None):
        raise UsageError("say both the step's number and its status, or neither and give JSON on standard input")
    commits: list[Json] = [*(commit or [])]
    noted: Document = {} if checkpoint is None else {"checkpoint": _json(checkpoint.encode(), "--checkpoint")}
    told = _told() if status is None else {"step_id": step_id, "status": status.value, "commits": commits, **noted}
    return _on(context, workspace, lambda found: found.step(step_of(told)))


@state.command(epilog="Example: [bold]orchestrator state fail work/STABLE-1234 < failure.json[/bold]")
def fail(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    workspace: Workspace,
    summary: Annotated[str | None, typer.Option(help="What happened; without it, JSON is read.")] = None,
    type: Annotated[str, typer.Option(help="Such as test_failure.")] = "failure",  # noqa: A002
    agent: Annotated[str | None, typer.Option(help="Whose failure it is.")] = None,
    step: Annotated[str | None, typer.Option(help="In which step.")] = None,
    command: Annotated[str | None, typer.Option(help="What was run.")] = None,
    exit_code: Annotated[int | None, typer.Option(help="How that ended.")] = None,
) -> int:
    """Put a failure on record: from options, or the whole entry as JSON from standard input."""
    given: Document = {
        "agent": agent,
        "step": step,
        "attempted_action": {"description": "", "command": command},
        "actual_outcome": {"type": type, "summary": summary, "exit_code": exit_code},
    }
    told = _told() if summary is None else given
    return _on(context, workspace, lambda found: _failed(found, told))


def _failed(found: Operated, told: Document) -> Document:
    """An entry that names no state is of the one that the task is in."""
    here = str(found.get()["current_state"]) if not told.get("state") else ""
    return found.fail(failure_of(told, here, clock.now()))


def _on(context: typer.Context, workspace: Path, ask: Callable[[Operated], Document]) -> int:
    """Ask it of the workspace, or of the daemon whose task it is; an agent asks its daemon or nobody."""
    folder = workspace.expanduser().absolute()
    place = context_of(context)
    if not is_task(folder):
        return _print(lambda: ask(_lone(place, folder)))
    if run_above(os.getpid(), folder.parent) is not None:
        with _client(place, folder) as client:
            return _print(lambda: ask(client.state_of(folder.name)))
    by = str(Caller(pid=os.getpid(), uid=os.getuid()))
    try:
        return _print(lambda: ask(OfflineTask(folder, clock.now, by)))
    except StoreInUse:
        with _client(place, folder) as client:
            return _print(lambda: ask(client.state_of(folder.name)))


def _client(place: CliContext, folder: Path) -> Client:
    given = {"data_dir": str(folder.parent.parent), "socket": place.socket and str(place.socket)}
    settings = load_settings(place.config, {name: value for name, value in given.items() if value is not None})
    return Client(settings.socket, token=environment().get(TOKEN, ""))


def _lone(place: CliContext, workspace: Path) -> StandaloneWorkspace:
    pipelines = load_definitions(place.settings().definition_folders()).pipelines
    by = str(Caller(pid=os.getpid(), uid=os.getuid()))
    return StandaloneWorkspace(workspace.expanduser().absolute(), pipelines, clock.now, by)


def _told() -> Document:
    """The JSON object on standard input. Raises UsageError."""
    found = _json(sys.stdin.buffer.read(LARGEST_DOCUMENT + 1), "standard input")
    if not isinstance(found, dict):
        raise UsageError("standard input has to be a JSON object")
    return found


def _json(text: bytes, where: str) -> Json:
    if len(text) > LARGEST_DOCUMENT:
        raise UsageError(f"{where} is larger than {LARGEST_DOCUMENT} bytes")
    try:
        found: Json = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{where} is no JSON: {error}") from error
    return found


def _print(ask: Callable[[], Document]) -> int:
    """The answer as the one JSON document, and 0; a refusal in the seed's form, and 1."""
    try:
        answer, code = ask(), 0
    except OperationRefused as error:
        answer, code = error.document, 1
    typer.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    return code
