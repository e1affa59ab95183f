"""Whether people and other programs can be told: the channels of notices, and the receiver of traces."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.integrations.notices.health import HealthBook
from orchestrator.integrations.notices.outbox import FOLDER as NOTIFICATIONS
from orchestrator.integrations.notices.service import INSTALL as INSTALL_APPRISE
from orchestrator.settings.environment import secret_file
from orchestrator.settings.sections.notify import COMMAND
from orchestrator.settings.settings import Settings

INSTALL_TRACES = "pip install 'orchestrator[telemetry]'"


def check_telling(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that the command that tells people can be started."""
    command = settings.people.notify_command
    if command and shutil.which(command[0], path=variables.get("PATH")) is None:
        text = f"people.notify_command names {command[0]!r:.200}, and there is no such program: nobody would be told"
        mend = "correct people.notify_command in orchestrator.toml"
        yield DoctorFinding(name="notices", level=Level.BAD, text=text, mend=mend)


def check_channels(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that every channel of notices has what it needs, and that it worked when it was last used."""
    known = {*settings.notify.channels}
    if settings.people.notify_command:
        known.add(COMMAND)
    for name, channel in settings.notify.channels.items():
        if missing := [variable for variable in channel.variables() if not variables.get(variable)]:
            text = f"{name} needs the variable {missing[0]}, which is not set"
            yield DoctorFinding(name="channel", level=Level.WARN, text=text, mend=_put_into(missing[0]))
        elif channel.type == "apprise" and find_spec("apprise") is None:
            text = f"{name} needs Apprise, which is not installed"
            yield DoctorFinding(name="channel", level=Level.WARN, text=text, mend=INSTALL_APPRISE)
    if not os.access(settings.data_dir, os.R_OK | os.X_OK, effective_ids=True):
        return
    book = HealthBook(settings.data_dir / NOTIFICATIONS)
    for name in sorted(known & book.now.keys()):
        if (health := book.of(name)).is_dead:
            text, mend = f"{name} does not work {health.summary}", f"orchestrator notify test {name}"
            yield DoctorFinding(name="channel", level=Level.WARN, text=text, mend=mend)


def _put_into(variable: str) -> str:
    return f"write its value to {secret_file(variable)}, readable by you alone; it is then used at once"


def check_traces(settings: Settings) -> Iterator[DoctorFinding]:
    """Check that traces can be sent if they are wanted."""
    if settings.telemetry.traces and not can_send_traces():
        text = "telemetry.traces is set, but the packages that send traces are not installed"
        yield DoctorFinding(name="traces", level=Level.WARN, text=text, mend=INSTALL_TRACES)


def can_send_traces() -> bool:
    """Return whether the packages that send traces are installed."""
    with suppress(ModuleNotFoundError):
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    return False
