"""`doctor`: problems that would stop an unattended night."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict
from rich.text import Text

from orchestrator.cli.context import CliContext, Json, context_of
from orchestrator.cli.output import console, plain, print_json
from orchestrator.daemon.examination.canary import make_canary_turn
from orchestrator.daemon.examination.examination import Examiner
from orchestrator.daemon.inspection.doctor_checks import (
    DoctorFinding,
    Environment,
    Level,
    is_listening,
    of_another,
)
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import group_let_in, owned_by_another
from orchestrator.server.client import Client, DaemonUnreachable, RequestRefused
from orchestrator.settings.environment import environment_with_secrets, secrets_of_service
from orchestrator.settings.loading import SettingsError
from orchestrator.settings.settings import Settings

MARKS = {
    Level.OK: Text("✓", style="green"),
    Level.WARN: Text("!", style="bold yellow"),
    Level.BAD: Text("✗", style="bold red"),
}


class DoctorReport(BaseModel):
    """The results of all checks; `ok` means that nothing would stop the night."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    findings: tuple[DoctorFinding, ...]


def doctor(
    context: typer.Context,
    canary: Annotated[
        bool, typer.Option("--canary", help="Also let the CLI make one small turn, which costs some cents.")
    ] = False,
    json: Json = False,
) -> int:
    """Check what would stop an unattended night, and print the command that fixes it. Exit code 1 if anything would."""
    found = tuple(_findings(context_of(context), canary=canary))
    ok = all(one.level is not Level.BAD for one in found)
    if json:
        print_json(DoctorReport(ok=ok, findings=found))
        return int(not ok)
    screen = console()
    for one in found:
        screen.print(MARKS[one.level], Text(f"{one.name:<12}", style="bold"), Text(plain(one.text)))
        if one.mend:
            screen.print(Text(f"  → {one.mend}", style="cyan"))
    return int(not ok)


def _findings(place: CliContext, *, canary: bool) -> Iterator[DoctorFinding]:
    """Run every check; with settings that are wrong, those are the first finding, and the defaults are checked."""
    try:
        settings = place.settings()
    except SettingsError as error:
        yield DoctorFinding(
            name="settings", level=Level.BAD, text=str(error), mend="correct them, then: orchestrator check"
        )
        places = place.places()
        settings = Settings.model_construct(data_dir=places.data_dir, socket=places.socket)
    yield from findings(settings, {**secrets_of_service(), **environment_with_secrets()}, canary=canary)


def findings(settings: Settings, variables: Environment, *, canary: bool = False) -> Iterator[DoctorFinding]:
    """Run every check, in the order in which one would fix the problems."""
    yield from Examiner().examine(settings, variables)
    yield daemon(settings)
    if canary:
        yield from make_canary_turn(settings, variables)


def daemon(settings: Settings) -> DoctorFinding:
    """Check that the daemon answers."""
    try:
        with Client(settings.socket) as client:
            found = client.status()
    except (DaemonUnreachable, RequestRefused, OrchestratorError) as error:
        text, owner = str(error).partition(";")[0], owned_by_another(settings.socket)
        if owner is not None and is_listening(settings.socket):
            group = group_let_in(settings.socket)
            who = f"{owner} and the group {group}" if group else f"only {owner}"
            return of_another("daemon", f"it listens on {settings.socket}, where {who} may ask it", owner)
        return DoctorFinding(name="daemon", level=Level.BAD, text=text, mend=starts_daemon(settings.socket))
    return DoctorFinding(
        name="daemon", level=Level.OK, text=f"pid {found.pid}, version {found.version}, {found.health}"
    )


def starts_daemon(socket: Path) -> str:
    """Return the command that starts the daemon of this socket; a socket below /run belongs to a systemd service."""
    if socket.is_relative_to("/run/user"):
        return "systemctl --user restart orchestrator"
    return "sudo systemctl restart orchestrator" if socket.is_relative_to("/run") else "orchestrator serve"
