"""Whether people and other programs can be told: the command for notices, and the receiver of traces."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.settings.settings import Settings

INSTALL_TRACES = "pip install 'orchestrator[telemetry]'"


def check_telling(settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
    """Check that the command that tells people can be started."""
    command = settings.people.notify_command
    if command and shutil.which(command[0], path=variables.get("PATH")) is None:
        text = f"people.notify_command names {command[0]!r:.200}, and there is no such program: nobody would be told"
        mend = "correct people.notify_command in orchestrator.toml"
        yield DoctorFinding(name="notices", level=Level.BAD, text=text, mend=mend)


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
