"""Which daemon a command means, by the options before it and the settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import ValidationError

from orchestrator.errors import OrchestratorError
from orchestrator.server.client import Client
from orchestrator.server.schemas.base import View
from orchestrator.settings import Settings, load_settings

V = TypeVar("V", bound=View)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help="An id, its beginning, or a ticket's key.", show_default=False)
]


class UsageError(OrchestratorError):
    """A command was given what it cannot mean."""


class NotFound(OrchestratorError):
    """A command was given the name of something that does not exist."""


def parse_options(kind: type[V], given: Mapping[str, object]) -> V:
    """What options ask for, as it is sent. Raises UsageError."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problems = ((wrong["loc"][0], wrong["msg"].removeprefix("Value error, ")) for wrong in error.errors())
        raise UsageError("; ".join(f"{where}: {what}" for where, what in problems)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CliContext:
    """Where the options point; None leaves it to the settings."""

    data_dir: Path | None = None
    config: Path | None = None
    socket: Path | None = None

    def settings(self) -> Settings:
        """The settings with the options over them; raises SettingsError."""
        given: Mapping[str, Path | None] = {"data_dir": self.data_dir, "socket": self.socket}
        return load_settings(self.config, {name: str(path) for name, path in given.items() if path is not None})

    def client(self) -> Client:
        """A client of the daemon there."""
        return Client(self.settings().socket)


def context_of(context: typer.Context) -> CliContext:
    """The place that the options before the command name."""
    place: CliContext = context.obj
    return place
