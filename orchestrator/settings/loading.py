"""Settings are read here: files, variables and options merged into one frozen value.

Later layers win key by key: Jira's own variables, /etc/orchestrator/orchestrator.toml,
~/.config/orchestrator/orchestrator.toml, --config, ORCHESTRATOR_… variables, options. pydantic validates the merged
whole; an error is traced back to the layer that set the value, so that its message can name the file and the line.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource
from pydantic_settings import SettingsError as SourceError

from orchestrator.formats.table import DefinitionError, Problem, nearest
from orchestrator.formats.table import Path as Where
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.settings.environment import config_folders, default_data_dir, default_socket, secret_files
from orchestrator.settings.layers import Layer, layer_of_file, layer_that_sets, merge
from orchestrator.settings.sections.types import WholePath
from orchestrator.settings.settings import PREFIX, Settings

AGENTS_VARIABLES = frozenset({"RUN", "TASK", "ROLE", "ATTEMPT", "SESSION_ID", "RESUME", "OUTBOX", "TOKEN"})
"""Variables with the same prefix that agents are given: they are not settings, and not mistakes."""
STARTED_BY_DAEMON = {
    "people": ("notify_command",),
    "notify": ("channels",),
    "agent": ("executable", "mcp_config"),
}
"""The settings, by table, that name programs which the daemon starts outside any run, and where it sends secrets."""


class SettingsError(DefinitionError):
    """The settings are invalid; `problems` says why, each with the place that set the value."""


def load_settings(config: Path | None = None, options: Mapping[str, object] | None = None) -> Settings:
    """Return the settings of this machine, user, file, environment and command line. Raises SettingsError.

    `config` must exist if it is given; `options` are keyed as the settings are, tables inside tables.
    """
    try:
        layers = [_from_jira_variables(), *(layer_of_file(path) for path in _files(config))]
    except DefinitionError as error:
        raise SettingsError(error.problems) from error
    if problems := secret_files()[1]:
        raise SettingsError(problems)
    layers.append(_from_environment())
    layers.append(Layer(source="options", values=options or {}))
    values: Mapping[str, object] = {}
    for layer in layers:
        values = merge(values, layer.values)
    try:
        return Settings.model_validate(values).from_layers(layers)
    except ValidationError as error:
        problems = [_problem(layers, found["loc"], found["type"], _message(found)) for found in _faults(error)]
        raise SettingsError(problems) from error


class Places(BaseModel):
    """The settings that a command needs to find the daemon and its data."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_default=True)

    data_dir: WholePath = Field(default_factory=default_data_dir)
    socket: WholePath = Field(default_factory=default_socket)


def load_places(config: Path | None = None, options: Mapping[str, object] | None = None) -> Places:
    """Return where the daemon and its data are, even if other settings are wrong.

    Of a file that is not TOML, the lines count that set them. Raises SettingsError if they are wrong themselves, or if
    a file cannot be read.
    """
    try:
        layers = [Layer(source=str(path), values=_places_in(read_declared(path))) for path in _files(config)]
    except DefinitionError as error:
        raise SettingsError(error.problems) from error
    given = {name.upper(): value for name, value in os.environ.items()}
    own = {key: given[name] for key in Places.model_fields if (name := f"{PREFIX}{key.upper()}") in given}
    layers += [Layer(source="environment", values=own), Layer(source="options", values=options or {})]
    values = {key: value for layer in layers for key, value in layer.values.items()}
    try:
        return Places.model_validate(values)
    except ValidationError as error:
        problems = [_problem(layers, found["loc"], found["type"], _message(found)) for found in _faults(error)]
        raise SettingsError(problems) from error


def _faults(error: ValidationError) -> list[ErrorDetails]:
    """Return what is wrong, without defaults that cannot be told because another value is wrong."""
    return [found for found in error.errors() if found["type"] != "default_factory_not_called"]


def _message(found: ErrorDetails) -> str:
    return found["msg"].removeprefix("Value error, ")


def _places_in(text: str) -> dict[str, object]:
    """Return the values of a settings file that say where the daemon and its data are."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        before_tables = takewhile(lambda line: not line.lstrip().startswith("["), text.splitlines())
        values = {}
        for line in before_tables:
            with suppress(tomllib.TOMLDecodeError, RecursionError):
                values |= tomllib.loads(line)
    return {key: value for key, value in values.items() if key in Places.model_fields}


def keep_programs(changed: Settings, now: Settings) -> tuple[Settings, list[str]]:
    """Return changed settings with the programs that the daemon itself starts as they are now, and which differed."""
    kept, names = changed, []
    for section, keys in STARTED_BY_DAEMON.items():
        before, after = getattr(now, section), getattr(changed, section)
        differing = [key for key in keys if getattr(before, key) != getattr(after, key)]
        names += [f"{section}.{key}" for key in differing]
        values = {key: getattr(before, key) for key in differing}
        kept = kept.model_copy(update={section: after.model_copy(update=values)})
    return kept, names


def is_writable(file: Path) -> bool:
    """Return whether programs of this user can write a file, or put another in its place."""
    path, us = file.absolute(), os.geteuid()
    existing = [one for one in (path, *path.parents) if one.exists()]
    return any(os.access(one, os.W_OK) or one.stat().st_uid == us for one in existing)


def _files(config: Path | None) -> Iterator[Path]:
    yield from (file for folder in config_folders() if (file := folder / "orchestrator.toml").exists())
    if config is not None:
        yield config


def _from_jira_variables() -> Layer:
    """Return the layer of the usual variables for Jira: JIRA_BASE_URL and JIRA_USER_EMAIL."""
    names = {"url": "JIRA_BASE_URL", "user": "JIRA_USER_EMAIL"}
    given = {key: os.environ[name] for key, name in names.items() if os.environ.get(name)}
    return Layer(source="JIRA_… variables", values={"trackers": {"jira": given}} if given else {})


def _from_environment() -> Layer:
    known = Settings.model_fields
    problems = [
        Problem(source="environment", text=f"{name} is not a setting; {nearest(key, known)}")
        for name in os.environ
        if name.startswith(PREFIX)
        and (key := name.removeprefix(PREFIX).split("__")[0].lower()) not in known
        and name.removeprefix(PREFIX) not in AGENTS_VARIABLES
    ]
    if problems:
        raise SettingsError(problems)
    try:
        return Layer(source="environment", values=EnvSettingsSource(Settings)())
    except SourceError as error:
        text = f"{error}; write lists and tables as JSON"
        raise SettingsError([Problem(source="environment", text=text)]) from error


def _problem(layers: list[Layer], path: Where, kind: str, message: str) -> Problem:
    """Return what pydantic found, with the place that set the value last."""
    layer = layer_that_sets(layers, tuple(key for key in path if isinstance(key, str))) or layers[-1]
    line, name = layer.line_of(path), ".".join(map(str, path))
    if kind == "extra_forbidden":
        return Problem(
            source=layer.source, line=line, text=f"unknown key {name!r}; {nearest(str(path[-1]), _known(path))}"
        )
    return Problem(source=layer.source, line=line, text=f"{name}: {message[0].lower()}{message[1:]}")


def _known(path: Where) -> list[str]:
    """Return the known keys of the table in which the path ends, or of its entries if its own keys are free names."""
    fields = Settings.model_fields
    for key in path[:-1]:
        found = fields.get(str(key))
        inner = found.annotation if found else None
        inner = get_args(inner)[-1] if get_origin(inner) is Mapping else inner
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            fields = inner.model_fields
    return list(fields)
