"""`checkpoints list|show|restore|pin|recover`: saved work of a task, and how to restore it."""

import re
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.text import Text

from orchestrator import clock
from orchestrator.cli.context import CliContext, Json, TaskName, UsageError, context_of
from orchestrator.cli.output import console, facts, local, note, plain, print_json, table
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.daemon import recovery
from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.server.client import DaemonUnreachable
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.checkpoints import CheckpointView, RecoveredView, RestoreBody, SavedWorkView
from orchestrator.settings.loading import SettingsError
from orchestrator.storage.store import FolderStore

HEADINGS = ("NUMBER", "WHEN", "WHY", "STAGE", "STEP", "WORK", "")

Number = Annotated[int, typer.Argument(metavar="N", min=0, help="A checkpoint's number, as `list` shows it.")]

PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")

checkpoints = typer.Typer(no_args_is_help=True, help="List and restore the saved work of a task.")


@checkpoints.command("list", epilog="Example: [bold]orchestrator checkpoints list ABC-123[/bold]")
def list_(context: typer.Context, task: TaskName, json: Json = False) -> None:
    """List a task's checkpoints, newest first: the last ten, and the pinned ones."""
    with context_of(context).client() as client:
        found = client.checkpoints(task)
    if json:
        print_json(found)
    elif found.checkpoints:
        console().print(table(HEADINGS, [_row(one) for one in found.checkpoints]))
    else:
        note("no checkpoint yet; the first one is taken when a stage ends, or after ten minutes of work")


@checkpoints.command(epilog="Example: [bold]orchestrator checkpoints show ABC-123 12[/bold]")
def show(context: typer.Context, task: TaskName, number: Number, json: Json = False) -> None:
    """Show one checkpoint in full."""
    with context_of(context).client() as client:
        found = client.checkpoint(task, number)
    if json:
        print_json(found)
    else:
        console().print(facts(_facts(found)))


@checkpoints.command(epilog="Example: [bold]orchestrator checkpoints restore ABC-123 12[/bold]")
def restore(  # noqa: PLR0913, PLR0917 - one parameter for each option
    context: typer.Context,
    task: TaskName,
    number: Number,
    branch: Annotated[str | None, typer.Option(help="Name of the new branch in your repository.")] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Into the task's own worktree, while no agent works there.")
    ] = False,
    json: Json = False,
) -> None:
    """Restore what a checkpoint saved: by default as a new branch in your repository.

    Nothing is lost: what is in the worktree now becomes a pinned checkpoint first.
    """
    if in_place and branch is not None:
        raise UsageError("--branch and --in-place exclude each other; give one of them")
    with context_of(context).client() as client:
        done = client.restore(task, number, RestoreBody(branch=branch, in_place=in_place))
    if json:
        print_json(done)
    elif done.branch:
        console().print(f"branch {done.branch} in {done.repo} is at {(done.commit or '')[:12]}", soft_wrap=True)
    else:
        said = (
            f"{done.worktree} has the files of checkpoint {number}; those from before are in checkpoint {done.kept_as}"
        )
        console().print(f"{said}, which is pinned", soft_wrap=True)


@checkpoints.command(epilog="Example: [bold]orchestrator checkpoints pin ABC-123 12[/bold]")
def pin(
    context: typer.Context,
    task: TaskName,
    number: Number,
    off: Annotated[bool, typer.Option("--off", help="Unpin it.")] = False,
    json: Json = False,
) -> None:
    """Keep a checkpoint permanently."""
    with context_of(context).client() as client:
        found = client.pin(task, number, pinned=not off)
    if json:
        print_json(found)
    else:
        console().print(f"checkpoint {number} is {'pinned' if found.pinned else 'no longer pinned'}")


@checkpoints.command(epilog="Example: [bold]orchestrator checkpoints recover ABC-123-20261121_220000[/bold]")
def recover(
    context: typer.Context,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The whole id: the name of its folder.")],
) -> None:
    """Recover a task whose files are lost or damaged, from the newest state that can be read.

    The daemon goes on with it at once, or at its next start. Nothing is deleted: files that cannot be read are set
    aside.
    """
    folder = context_of(context).places().data_dir / "tasks" / task
    if not PLAIN_ID.fullmatch(task) or not folder.is_dir():
        raise UsageError(f"there is no folder {plain(task)} in {folder.parent}; give a task's whole id")
    try:
        with context_of(context).client() as client:
            done = client.recover(task)
    except DaemonUnreachable:
        done = _recover_alone(context_of(context), task)
    console().print(f"{task} is {done.status} in {done.stage} again, from {done.source}", soft_wrap=True)
    for name in done.set_aside:
        console().print(f"set aside: {folder / name}", soft_wrap=True)


def _recover_alone(context: CliContext, task: str) -> RecoveredView:
    """Recover a task without a daemon."""
    store = FolderStore(context.places().data_dir)
    try:
        done = recovery.recover(store, task, _declared(context), clock.now())
    finally:
        store.close()
    return compose_view(RecoveredView, str, done, done.task, task=task)


def _declared(context: CliContext) -> Mapping[str, Pipeline]:
    """Return the pipelines that are declared now; only the bundled ones if settings or definitions are wrong."""
    try:
        return load_definitions(context.settings().definition_folders()).pipelines
    except (SettingsError, DefinitionError):
        return load_definitions(Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))).pipelines


def _row(one: CheckpointView) -> tuple[Text | str, ...]:
    step = "" if one.task.step is None else str(one.task.step)
    pinned = "pinned" if one.pinned else ""
    return str(one.number), local(one.at) or "", one.reason, one.task.stage, step, _size(one.work), pinned


def _size(work: SavedWorkView | None) -> str:
    if work is None:
        return "not readable"
    if work.commit is None:
        return "nothing uncommitted"
    return f"{work.files} file{'s' * (work.files != 1)}, +{work.added} -{work.removed}"


def _facts(one: CheckpointView) -> list[tuple[str, Text | str | None]]:
    task, agent, work = one.task, one.agent, one.work
    who = f"{agent.role}, {agent.status}, attempt {agent.attempt}, turn {agent.turn}"
    return [
        ("number", f"{one.number}{', pinned' * one.pinned}"),
        ("taken", f"{local(one.at)}, {one.reason}"),
        ("task", f"{task.status} in {task.stage}{f', step {task.step}' * (task.step is not None)}, {task.progress}%"),
        ("agent", who * bool(agent.attempt)),
        ("session", agent.session_id),
        ("used", f"{agent.tokens_used:,} tokens, ${agent.cost_usd:.2f}" * bool(agent.attempt)),
        ("work", _size(work)),
        ("saved as", work.commit if work else None),
        ("head", work.head if work else None),
        ("artifacts", ", ".join(one.artifacts)),
        ("environment", ", ".join(one.environment)),
    ]
