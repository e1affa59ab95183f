"""`schema`: what files and bodies may hold, for editors and programs."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import orjson
import typer

from orchestrator.api.views import SubmissionBody, TaskView
from orchestrator.cli.place import Json
from orchestrator.core.json_schema import Object
from orchestrator.core.schemas import pipeline_schema, role_schema, state_schema
from orchestrator.settings import Settings


class Name(StrEnum):
    """What there is a schema of."""

    STATE = "state"
    SETTINGS = "settings"
    PIPELINE = "pipeline"
    ROLE = "role"
    TICKET = "ticket"
    TASK = "task"


SCHEMAS: Mapping[Name, Callable[[], Object]] = {
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
            "matter; ticket: what is handed in over the API; task: what the API tells of a task.",
            show_default=False,
        ),
    ],
    json: Json = False,  # noqa: ARG001 - it is JSON with and without it
) -> None:
    """Print the JSON Schema of a file or a body, for editors and programs. Needs no daemon."""
    typer.echo(orjson.dumps(SCHEMAS[name](), option=orjson.OPT_INDENT_2).decode())
