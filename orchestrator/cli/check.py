"""`check`: everything that is declared in files, validated without a daemon."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.text import Text

from orchestrator.cli.place import Json, Misused, Place, place_of
from orchestrator.cli.screen import complain, console, print_json
from orchestrator.core.pipeline_file import parse_pipeline
from orchestrator.core.pipeline_rules import check_roles
from orchestrator.core.table import DefinitionError, Problem
from orchestrator.declared import Folders, read_declared
from orchestrator.definitions import Definitions, load_definitions, parse_role
from orchestrator.servers import ServersMissing, find_server
from orchestrator.settings import Settings, SettingsError, load_settings

SETTINGS_FILE = "orchestrator.toml"


class ProblemLine(BaseModel):
    """One thing that is wrong; line 0 means the file as a whole."""

    source: str
    line: int
    text: str


class Checked(BaseModel):
    """What was found: the names of what can be used, and what is wrong."""

    ok: bool
    pipelines: tuple[str, ...]
    roles: tuple[str, ...]
    problems: tuple[ProblemLine, ...]


def check(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="A folder of configuration, or one file; default: what `serve` would read.")
    ] = None,
    json: Json = False,
) -> int:
    """Validate settings, pipelines and roles; every problem is listed with its file and line. Needs no daemon."""
    found = _checked(place_of(context), path and path.expanduser().absolute())
    if json:
        print_json(found)
    elif found.ok:
        console().print(Text("ok", style="green"), _names("pipelines", found.pipelines), _names("roles", found.roles))
    else:
        complain(*(str(Problem(source=one.source, line=one.line, text=one.text)) for one in found.problems))
    return int(not found.ok)


def _checked(place: Place, path: Path | None) -> Checked:
    problems: list[Problem] = []
    definitions = Definitions(pipelines={}, roles={})
    try:
        settings = _settings(place, path)
    except SettingsError as error:
        problems += error.problems
        settings = Settings.model_construct()
    try:
        definitions = load_definitions(_folders(settings, path))
        problems += _alone(path, definitions) if path and path.is_file() else ()
        problems += _without_gateway(settings)
    except DefinitionError as error:
        problems += error.problems
    return Checked(
        ok=not problems,
        pipelines=tuple(definitions.pipelines),
        roles=tuple(definitions.roles),
        problems=tuple(ProblemLine(source=one.source, line=one.line, text=one.text) for one in problems),
    )


def _settings(place: Place, path: Path | None) -> Settings:
    """The settings, with those that the path names over them."""
    if path is None:
        return place.settings()
    if not path.exists():
        raise Misused(f"{path} does not exist; give a folder with {SETTINGS_FILE}, pipelines/ or agents/, or one file")
    named = path / SETTINGS_FILE if path.is_dir() else path
    return load_settings(named) if named.name == SETTINGS_FILE and named.exists() else place.settings()


def _without_gateway(settings: Settings) -> Iterator[Problem]:
    """What is wrong with the server by which Jira's tickets shall come."""
    name, config = settings.trackers.jira.gateway, settings.agent.mcp_config
    if name:
        try:
            find_server(name, config)
        except ServersMissing as error:
            yield Problem(source="trackers.jira.gateway", line=0, text=str(error))


def _folders(settings: Settings, path: Path | None) -> Folders:
    """Where definitions lie, those in the folder of the path last."""
    folders = settings.definition_folders()
    if path is None or not path.is_dir():
        return folders
    return replace(folders, pipelines=(*folders.pipelines, path / "pipelines"), roles=(*folders.roles, path / "agents"))


def _alone(path: Path, definitions: Definitions) -> Iterator[Problem]:
    """What is wrong with one file of a pipeline or a role."""
    if path.suffix == ".md":
        parse_role(read_declared(path), str(path))
    elif path.suffix == ".toml" and path.name != SETTINGS_FILE:
        text = read_declared(path)
        if _holds_settings(text):
            said = "holds settings, not a pipeline; to check settings of another name than"
            raise Misused(f"{path} {said} {SETTINGS_FILE}: orchestrator --config {path} check")
        yield from check_roles(parse_pipeline(text, str(path)), definitions.roles)
    elif path.suffix != ".toml":
        raise Misused(f"{path} is neither a pipeline (.toml) nor a role (.md)")


def _holds_settings(text: str) -> bool:
    """Whether a file of TOML is one of settings: it has keys of theirs and neither stages nor a start."""
    try:
        keys = tomllib.loads(text).keys()
    except tomllib.TOMLDecodeError:
        return False
    return not keys & {"stages", "start"} and bool(keys & Settings.model_fields.keys())


def _names(kind: str, names: tuple[str, ...]) -> str:
    return f"{kind}: {', '.join(names) or 'none'};" if kind == "pipelines" else f"{kind}: {', '.join(names) or 'none'}"
