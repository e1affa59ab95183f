"""`service`: install the daemon as a service of systemd, look at it, upgrade it and remove it again."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from orchestrator.cli.context import Json
from orchestrator.cli.output import complain, note, plain, print_json
from orchestrator.cli.service.carrying_out import carry_out, forget, lingers, run
from orchestrator.cli.service.plan import Deed, Step, installation, removal
from orchestrator.cli.service.record import read_record
from orchestrator.cli.service.scope import (
    UNIT,
    Places,
    Scope,
    ServiceRefused,
    chosen_scope,
    has_service_manager,
    places_of,
    require_readable_program,
    require_service_manager,
)
from orchestrator.cli.service.upgrade import doctor, require_pip, source_of, upgrade_steps, way_back

User = Annotated[bool, typer.Option("--user", help="A service of your own user.")]
System = Annotated[bool, typer.Option("--system", help="A service of the machine, with an account of its own.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]

SHOWN = ("ActiveState", "SubState", "StatusText", "Result", "NRestarts", "MainPID", "UnitFileState")
"""What `status --json` shows of what systemd knows."""
LONGEST_SHOWN = 8
"""Lines of a file that the plan shows whole."""
PASSED_ON = frozenset({0, 3, 4})
"""Exit codes of `systemctl status` that mean here what they mean there: it runs, it does not, there is none."""

service = typer.Typer(no_args_is_help=True, help="The daemon as a service of systemd.")


class StepView(BaseModel):
    """One step of a plan, as `--json` prints it: with a path or a command."""

    deed: str
    path: str | None
    command: tuple[str, ...]
    note: str


class PlanView(BaseModel):
    """A plan, and whether it was carried out."""

    scope: str
    done: bool
    steps: tuple[StepView, ...]


class StatusView(BaseModel):
    """What systemd knows of the service."""

    scope: str
    properties: dict[str, str]


@service.command("install", epilog="Example: [bold]sudo orchestrator service install[/bold]")
def install(
    user: User = False, system: System = False, yes: Yes = False, dry_run: DryRun = False, json: Json = False
) -> None:
    """Install the daemon as a service and start it, or bring its files up to date. Shows first what it will do."""
    places = _planned_places(user=user, system=system, dry_run=dry_run)
    try:
        require_readable_program(places)
    except ServiceRefused as error:
        if not dry_run:
            raise
        note(f"this would be refused: {error}")
    steps = installation(places, read_record(places.record), lingers=lingers(places.account))
    if _carry_out(places, steps, yes=yes, dry_run=dry_run, json=json) and not json:
        prefix = f"sudo -iu {places.account} " if places.scope is Scope.SYSTEM else ""
        note(f"the service runs; what an unattended night still needs: {prefix}orchestrator doctor")


@service.command("uninstall", epilog="Example: [bold]sudo orchestrator service uninstall[/bold]")
def uninstall(  # noqa: PLR0913, PLR0917 - one for each option
    user: User = False,
    system: System = False,
    delete_data: Annotated[
        bool, typer.Option("--delete-data", help="Delete all tasks and the account's home folder too.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Stop the service and remove what `install` wrote; files that were changed since, and all data, are kept."""
    places = _planned_places(user=user, system=system, dry_run=dry_run)
    steps = removal(places, read_record(places.record), delete_data=delete_data)
    if not any(step.changes for step in steps):
        note(f"nothing of `orchestrator service install --{places.scope}` is here, so there is nothing to undo")
        if json:
            _print_plan(places, steps, done=False)
    elif _carry_out(places, steps, yes=yes, dry_run=dry_run, json=json):
        forget(places)


@service.command("status", epilog="Example: [bold]orchestrator service status[/bold]")
def status(user: User = False, system: System = False, json: Json = False) -> int:
    """Show what systemd knows of the service, and its last log lines."""
    places = _places(user=user, system=system, to_change=False)
    systemctl = ("systemctl", *places.scope.words)
    if json:
        shown = run((*systemctl, "show", UNIT, *(f"--property={name}" for name in SHOWN))).stdout
        pairs = (line.partition("=") for line in shown.splitlines())
        print_json(StatusView(scope=places.scope, properties={name: value for name, _, value in pairs}))
        return 0
    code = subprocess.call((*systemctl, "status", "--no-pager", "--lines=5", UNIT))
    return code if code in PASSED_ON else 1


@service.command("logs", epilog="Example: [bold]orchestrator service logs -f --since 22:00[/bold]")
def logs(  # noqa: PLR0913, PLR0917 - one for each option
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show new lines as they come.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines to show.")] = 50,
    since: Annotated[str, typer.Option(metavar="TIME", help="Show what came later, as journalctl reads it.")] = "",
    warnings: Annotated[bool, typer.Option("--warnings", help="Show warnings and errors only.")] = False,
    user: User = False,
    system: System = False,
) -> int:
    """Show the daemon's log in the journal, and what systemd says about it."""
    scope = _places(user=user, system=system, to_change=False).scope
    words = ["journalctl", "--no-pager", "--output=short-iso", f"--{'user-' if scope is Scope.USER else ''}unit={UNIT}"]
    words += [f"--lines={lines}", *(["--follow"] if follow else []), *(["--priority=warning"] if warnings else [])]
    return int(subprocess.call([*words, *([f"--since={since}"] if since else [])]) != 0)


@service.command("upgrade", epilog="Example: [bold]sudo orchestrator service upgrade '.\\[claude,sandbox]'[/bold]")
def upgrade(  # noqa: PLR0913, PLR0917 - one for each option
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A checkout, a wheel or a requirement.")] = "",
    drain: Annotated[bool, typer.Option("--drain", help="End all agents before; their sessions are kept.")] = False,
    backup: Annotated[Path | None, typer.Option(metavar="FILE", help="Save all data there before.")] = None,
    user: User = False,
    system: System = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Install a new version, restart the service, and let the new version check the machine."""
    places = _planned_places(user=user, system=system, dry_run=dry_run)
    steps = upgrade_steps(places, source_of(source), backup, drain=drain)
    require_pip(places)
    back = tuple(way_back(places))
    try:
        done = _carry_out(places, steps, yes=yes, dry_run=dry_run, json=json)
    except (ServiceRefused, OSError):
        complain("the upgrade failed", *back)
        raise
    return doctor(places) if done and not json else 0


def _places(*, user: bool, system: bool, to_change: bool) -> Places:
    places = places_of(chosen_scope(user=user, system=system))
    require_service_manager(places.scope, to_change=to_change)
    return places


def _planned_places(*, user: bool, system: bool, dry_run: bool) -> Places:
    """Return the places of a plan, which can be shown without systemd too. Raises ServiceRefused."""
    if dry_run and not has_service_manager():
        note("systemd does not run here, so this plan can only be shown; start the daemon with `orchestrator serve`")
        return places_of(chosen_scope(user=user, system=system))
    return _places(user=user, system=system, to_change=not dry_run)


def _carry_out(places: Places, steps: Sequence[Step], *, yes: bool, dry_run: bool, json: bool) -> bool:
    """Show a plan, ask, and carry it out; return whether that was done. Raises ServiceRefused, OSError and Abort."""
    if json and not (yes or dry_run):
        raise ServiceRefused("--json asks nothing: give --yes or --dry-run with it")
    if not json:
        typer.echo(f"{places.scope} service {UNIT}, as the user {places.account}:")
        for step in steps:
            _show(step)
    if not dry_run:
        if not yes:
            typer.confirm("Do this?", abort=True)
        carry_out(places, steps, lambda _: None)
    if json:
        _print_plan(places, steps, done=not dry_run)
    return not dry_run


def _print_plan(places: Places, steps: Sequence[Step], *, done: bool) -> None:
    views = tuple(
        StepView(deed=step.deed, path=str(step.path) if step.path else None, command=step.command, note=step.note)
        for step in steps
    )
    print_json(PlanView(scope=places.scope, done=done, steps=views))


def _show(step: Step) -> None:
    typer.echo(f"  {plain(str(step))}")
    lines = step.content.decode("utf-8", "replace").splitlines()
    if step.deed is Deed.WRITE and len(lines) <= LONGEST_SHOWN:
        for line in lines:
            typer.echo(f"            {plain(line)}")
