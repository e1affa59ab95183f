"""Which daemon a command talks to, by the options before it and the settings, and waiting for one that restarts."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from orchestrator import __version__
from orchestrator.cli.parsing.errors import UnknownName, UsageError
from orchestrator.cli.parsing.options import PLACES, GlobalOptions
from orchestrator.cli.terminal import note
from orchestrator.core.task.task import TaskStatus
from orchestrator.errors import OrchestratorError
from orchestrator.server.client import Client, DaemonUnreachable
from orchestrator.server.schemas.base import View
from orchestrator.server.schemas.task_input import LONGEST_SEARCH, TaskFilter
from orchestrator.server.versions import difference
from orchestrator.settings.loading import Places, SettingsError, load_places, load_settings
from orchestrator.settings.settings import Settings

__all__ = ["CliContext", "Json", "TaskName", "TaskNames", "UnknownName", "UsageError", "context_of"]

T = TypeVar("T")
V = TypeVar("V", bound=View)

RESTART_TIME = 60.0
"""Seconds that a daemon may be away, as it is while it restarts."""
TRY_EVERY = 0.5

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
TASK_HELP = "An id or any part of it that no other task's id has, or a ticket's key."
COMPLETE_WITHIN = 1.0
"""Seconds that completing an id may take; a shell waits for it."""
MOST_COMPLETED = 100


def complete_task(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that begin so, each with its task's title; nothing if no daemon tells them in time."""
    given = {name: path for above in _above(ctx) for name, path in above.params.items() if name in PLACES and path}
    with suppress(OrchestratorError), CliContext(**given).quick_client() as client:
        page = client.tasks(TaskFilter(text=incomplete[:LONGEST_SEARCH], limit=MOST_COMPLETED))
        return [(one.id, f"{one.status}: {one.title}") for one in page.tasks]
    return []


def _above(context: Any) -> Iterator[typer.Context]:
    """Yield a context and those above it, the outermost first."""
    if context is not None:
        yield from _above(context.parent)
        yield context


TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help=TASK_HELP, show_default=False, autocompletion=complete_task)
]
TaskNames = Annotated[
    list[str],
    typer.Argument(
        metavar="TASK...", help=f"{TASK_HELP} Several may be given.", show_default=False, autocompletion=complete_task
    ),
]


def parse_options(kind: type[V], given: Mapping[str, object]) -> V:
    """Return options as the body of a request. Raises UsageError."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problems = ((wrong["loc"][0], wrong["msg"].removeprefix("Value error, ")) for wrong in error.errors())
        raise UsageError("; ".join(f"{where}: {what}" for where, what in problems)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliContext(GlobalOptions):
    """Which daemon is meant, by the global options and the settings."""

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

        client = Client(self.places().socket)
        client.on_answer(compare)
        return client

    def quick_client(self) -> Client:
        """Return a client that gives up soon, and says nothing of settings that are wrong."""
        return Client(load_places(self.config, self._options()).socket, within=COMPLETE_WITHIN)

    def _options(self) -> Mapping[str, object]:
        given = {"data_dir": self.data_dir, "socket": self.socket}
        return {name: str(path) for name, path in given.items() if path is not None}


def context_of(context: typer.Context) -> CliContext:
    """Return what the global options say."""
    given: GlobalOptions = context.obj
    return CliContext(data_dir=given.data_dir, config=given.config, socket=given.socket)


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
