"""`graph`: a pipeline drawn."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.text import Text

from orchestrator.cli.place import Json, Misused, place_of
from orchestrator.cli.screen import console, plain, print_json
from orchestrator.core import graph as drawing
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.pipeline_file import parse_pipeline
from orchestrator.core.table import nearest
from orchestrator.declared import read_declared
from orchestrator.definitions import load_definitions


class Format(StrEnum):
    """In which form a pipeline is drawn."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"


class NodeLine(BaseModel):
    """A stage: its name, what is done in it and who does it."""

    name: str
    about: tuple[str, ...]


class EdgeLine(BaseModel):
    """A way from a stage to another, to COMPLETED or to BLOCKED."""

    source: str
    target: str
    way: drawing.Way
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
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="Its name, or its file.", show_default=False)],
    format: Annotated[Format, typer.Option(help="What to draw it as.")] = Format.TEXT,  # noqa: A002
    json: Json = False,
) -> None:
    """Draw a pipeline: its stages, the ways between them, and what opens each. Needs no daemon."""
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
    known = load_definitions(place_of(context).settings().definition_folders()).pipelines
    if name not in known:
        raise Misused(f"there is no pipeline {name!r:.60}; {nearest(name, known)}")
    return known[name]


def _drawn(pipeline: Pipeline) -> Drawn:
    return Drawn(
        name=pipeline.name,
        description=pipeline.description,
        start=pipeline.start,
        stages=tuple(NodeLine(name=one.name, about=drawing.about(one)) for one in pipeline.stages.values()),
        edges=tuple(
            EdgeLine(source=one.source, target=one.target, way=one.way, labels=one.labels)
            for one in drawing.edges(pipeline)
        ),
    )
