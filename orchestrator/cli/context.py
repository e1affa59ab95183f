"""Which daemon a command talks to, by the options before it and the settings, and waiting for one that restarts."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from orchestrator import __version__
from orchestrator.cli.output import note
from orchestrator.core.task.task import TaskStatus
from orchestrator.errors import OrchestratorError
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.schemas.base import View
from orchestrator.server.versions import difference
from orchestrator.settings.loading import Places, SettingsError, load_places, load_settings
from orchestrator.settings.settings import Settings

T = TypeVar("T")
V = TypeVar("V", bound=View)

RESTART_TIME = 60.0
"""Seconds that a daemon may be away, as it is while it restarts."""
TRY_EVERY = 0.5

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="An id, its beginning, or a ticket's key.", show_default=False)
]


class UsageError(OrchestratorError):
    """A command was used with arguments that make no sense."""


class UnknownName(OrchestratorError):
    """A command was given the name of something that does not exist."""


def parse_options(kind: type[V], given: Mapping[str, object]) -> V:
    """Return options as the body of a request. Raises UsageError."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problems = ((wrong["loc"][0], wrong["msg"].removeprefix("Value error, ")) for wrong in error.errors())
        raise UsageError("; ".join(f"{where}: {what}" for where, what in problems)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliContext:
    """The options before the command; None leaves a choice to the settings."""

    data_dir: Path | None = None
    config: Path | None = None
    socket: Path | None = None

    def settings(self) -> Settings:
        """Return the settings, overridden by the options. Raises SettingsError."""
        return load_settings(self.config, self._options())

    def places(self) -> Places:
        """Return where the daemon and its data are; another setting that is wrong is only remarked on.

        Raises SettingsError if these settings are wrong themselves.
        """
        try:
            settings = self.settings()
        except SettingsError as error:
            places = load_places(self.config, self._options())
            note(f"the settings are wrong, which `orchestrator check` shows; going on without them: {error}")
            return places
        return Places(data_dir=settings.data_dir, socket=settings.socket)

    def client(self) -> Client:
        """Return a client of the daemon."""
        said: set[str] = set()

        def compare(version: str) -> None:
            differs = "" if said else difference(__version__, version)
            said.add(version)
            if differs:
                note(differs)

        return Client(self.places().socket, on_answer=compare)

    def _options(self) -> Mapping[str, object]:
        given: Mapping[str, Path | None] = {"data_dir": self.data_dir, "socket": self.socket}
        return {name: str(path) for name, path in given.items() if path is not None}


def context_of(context: typer.Context) -> CliContext:
    """Return the options before the command."""
    options: CliContext = context.obj
    return options


def has_stopped(status: TaskStatus) -> bool:
    """Return whether only a person can still change a task of this status."""
    return status.is_final or status is TaskStatus.BLOCKED


def retry_while_down(request: Callable[[], T]) -> T:
    """Return what `request` returns, repeated while the daemon is away. Raises DaemonUnreachable after a minute."""
    given_up_at: float | None = None
    while True:
        try:
            return request()
        except DaemonUnreachable:
            if given_up_at is None:
                given_up_at = time.monotonic() + RESTART_TIME
                note(f"the daemon is not reachable; retrying for {RESTART_TIME:.0f} s")
            elif time.monotonic() > given_up_at:
                raise
            time.sleep(TRY_EVERY)
