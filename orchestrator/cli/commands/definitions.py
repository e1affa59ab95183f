"""`check`, `graph`, `schema`: settings, pipelines and roles, without a daemon."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer
from pydantic import BaseModel
from rich.text import Text

from orchestrator.agents.mcp_servers import ServersMissing, find_server
from orchestrator.cli.context import CliContext, Json, UsageError, context_of
from orchestrator.cli.output import complain, console, note, plain, print_json
from orchestrator.cli.reports.settings_in_force import files_text, settings_view, show_settings
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.table import DefinitionError, Problem, nearest
from orchestrator.pipelines import graph as drawing
from orchestrator.pipelines.definition_files import Folders, read_declared
from orchestrator.pipelines.definitions import Definitions, load_definitions, parse_role
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.pipelines.pipeline_rules import check_roles
from orchestrator.pipelines.schemas import pipeline_schema, role_schema, state_schema
from orchestrator.server.schemas.oversight.inspection import SettingsView
from orchestrator.server.schemas.task_input import SubmissionBody
from orchestrator.server.schemas.tasks import TaskView
from orchestrator.settings.loading import SettingsError, load_settings
from orchestrator.settings.settings import Settings

SETTINGS_FILE = "orchestrator.toml"


class ProblemLine(BaseModel):
    """One problem; line 0 means the whole file."""

    source: str
    line: int
    text: str


class Checked(BaseModel):
    """The names of valid definitions, all problems, and the settings if they are asked for and valid."""

    ok: bool
    pipelines: tuple[str, ...]
    roles: tuple[str, ...]
    problems: tuple[ProblemLine, ...]
    settings: SettingsView | None = None


def check(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="A configuration folder, or one file; default: what `serve` would read.")
    ] = None,
    show: Annotated[
        bool,
        typer.Option("--settings", help="Also show every setting, and where its value comes from."),
    ] = False,
    json: Json = False,
) -> int:
    """Validate settings, pipelines and roles, and list every problem with file and line. Needs no daemon."""
    found = _checked(context_of(context), path and path.expanduser().absolute())
    if json:
        print_json(found if show else found.model_copy(update={"settings": None}))
        return int(not found.ok)
    if show and found.settings:
        show_settings(found.settings)
    if found.settings:
        note(files_text(found.settings.files))
    if found.ok:
        console().print(Text("ok", style="green"), _names("pipelines", found.pipelines), _names("roles", found.roles))
    else:
        complain(*(str(Problem(source=one.source, line=one.line, text=one.text)) for one in found.problems))
    return int(not found.ok)


def _checked(options: CliContext, path: Path | None) -> Checked:
    problems: list[Problem] = []
    definitions = Definitions(pipelines={}, roles={})
    view: SettingsView | None = None
    try:
        settings = _settings(options, path)
        view = settings_view(settings)
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
        settings=view,
    )


def _settings(options: CliContext, path: Path | None) -> Settings:
    """Return the settings, overridden by those that the path names."""
    if path is None:
        return options.settings()
    if not path.exists():
        raise UsageError(
            f"{path} does not exist; give a folder with {SETTINGS_FILE}, pipelines/ or agents/, or one file"
        )
    named = path / SETTINGS_FILE if path.is_dir() else path
    return load_settings(named) if named.name == SETTINGS_FILE and named.exists() else options.settings()


def _without_gateway(settings: Settings) -> Iterator[Problem]:
    """Yield problems with the MCP server that is to fetch Jira tickets."""
    name, config = settings.trackers.jira.gateway, settings.agent.mcp_config
    if name:
        try:
            find_server(name, config)
        except ServersMissing as error:
            yield Problem(source="trackers.jira.gateway", line=0, text=str(error))


def _folders(settings: Settings, path: Path | None) -> Folders:
    """Return the folders with definitions, that of the path last."""
    folders = settings.definition_folders()
    if path is None or not path.is_dir():
        return folders
    return replace(folders, pipelines=(*folders.pipelines, path / "pipelines"), roles=(*folders.roles, path / "agents"))


def _alone(path: Path, definitions: Definitions) -> Iterator[Problem]:
    """Yield problems in one pipeline or role file."""
    if path.suffix == ".md":
        parse_role(read_declared(path), str(path))
    elif path.suffix == ".toml" and path.name != SETTINGS_FILE:
        text = read_declared(path)
        if _holds_settings(text):
            said = "holds settings, not a pipeline; to check settings of another name than"
            raise UsageError(f"{path} {said} {SETTINGS_FILE}: orchestrator --config {path} check")
        yield from check_roles(parse_pipeline(text, str(path)), definitions.roles)
    elif path.suffix != ".toml":
        raise UsageError(f"{path} is neither a pipeline (.toml) nor a role (.md)")


def _holds_settings(text: str) -> bool:
    """Return whether a TOML file holds settings: it has some of their keys, and neither stages nor a start."""
    try:
        keys = tomllib.loads(text).keys()
    except tomllib.TOMLDecodeError:
        return False
    return not keys & {"stages", "start"} and bool(keys & Settings.model_fields.keys())


def _names(kind: str, names: tuple[str, ...]) -> str:
    return f"{kind}: {', '.join(names) or 'none'};" if kind == "pipelines" else f"{kind}: {', '.join(names) or 'none'}"


class Format(StrEnum):
    """An output format for drawings."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"


class NodeLine(BaseModel):
    """A stage: its name, what is done in it, and the role that does it."""

    name: str
    about: tuple[str, ...]


class EdgeLine(BaseModel):
    """A transition from a stage to another one, to COMPLETED or to BLOCKED."""

    source: str
    target: str
    way: drawing.EdgeKind
    labels: tuple[str, ...]


class Drawn(BaseModel):
    """A pipeline as nodes and edges."""

    name: str
    description: str
    start: str
    stages: tuple[NodeLine, ...]
    edges: tuple[EdgeLine, ...]


def graph(
    context: typer.Context,
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="The name of a pipeline, or its file.", show_default=False)
    ],
    format: Annotated[Format, typer.Option(help="The output format.")] = Format.TEXT,  # noqa: A002
    json: Json = False,
) -> None:
    """Draw a pipeline: its stages, the transitions between them, and their guards. Needs no daemon."""
    found = _pipeline(context, pipeline)
    if json:
        print_json(_drawn(found))
        return
    match format:
        case Format.TEXT:
            console().print(Text(plain(drawing.text(found))), end="", soft_wrap=True)
        case Format.MERMAID:
            typer.echo(plain(drawing.mermaid(found)), nl=False)
        case Format.DOT:
            typer.echo(plain(drawing.dot(found)), nl=False)


def _pipeline(context: typer.Context, name: str) -> Pipeline:
    if name.endswith(".toml") or "/" in name:
        path = Path(name).expanduser().absolute()
        return parse_pipeline(read_declared(path), str(path))
    known = load_definitions(context_of(context).settings().definition_folders()).pipelines
    if name not in known:
        raise UsageError(f"there is no pipeline {name!r:.60}; {nearest(name, known)}")
    return known[name]


def _drawn(pipeline: Pipeline) -> Drawn:
    return Drawn(
        name=pipeline.name,
        description=pipeline.description,
        start=pipeline.start,
        stages=tuple(NodeLine(name=one.name, about=drawing.about(one)) for one in pipeline.stages.values()),
        edges=tuple(
            EdgeLine(source=one.source, target=one.target, way=one.way, labels=one.labels)
            for one in drawing.graph_edges(pipeline)
        ),
    )


class Name(StrEnum):
    """Documents that have a schema."""

    STATE = "state"
    SETTINGS = "settings"
    PIPELINE = "pipeline"
    ROLE = "role"
    TICKET = "ticket"
    TASK = "task"


SCHEMAS: Mapping[Name, Callable[[], JsonObject]] = {
    Name.STATE: state_schema,
    Name.SETTINGS: Settings.model_json_schema,
    Name.PIPELINE: pipeline_schema,
    Name.ROLE: role_schema,
    Name.TICKET: SubmissionBody.model_json_schema,
    Name.TASK: TaskView.model_json_schema,
}


def schema(
    name: Annotated[
        Name,
        typer.Argument(
            help="state: state.json; settings: orchestrator.toml; pipeline: a pipeline's file; role: a role's front "
            "matter; ticket: a submission over the API; task: a task in the API's answers.",
            show_default=False,
        ),
    ],
    json: Json = False,  # noqa: ARG001 - it is JSON with and without it
) -> None:
    """Print the JSON Schema of a file or of a request, for editors and programs. Needs no daemon."""
    typer.echo(orjson.dumps(SCHEMAS[name](), option=orjson.OPT_INDENT_2).decode())
