"""Schemas of what the state operations take, in the names of the original systems' documents.

They are read by pipelines/operation_parser.py: long texts are cut, and what is unknown is ignored.
"""

from typing import Annotated

from fastapi import Body
from pydantic import BaseModel, Field, JsonValue, WithJsonSchema
from pydantic.config import JsonDict

from orchestrator.core.task.progress import StepStatus
from orchestrator.pipelines.operation_parser import LINE, PARAGRAPH

_NEEDED: JsonDict = {"type": "string", "minLength": 1}
_TEXT: JsonDict = {"type": ["string", "number", "null"]}
_TEXTS: JsonDict = {"type": ["array", "null"], "items": {"type": "string"}}
_WHEN: JsonDict = {"type": ["string", "null"], "format": "date-time"}


def _document(needed: list[str], **properties: JsonDict) -> WithJsonSchema:
    return WithJsonSchema({"type": "object", "required": needed, "properties": properties})


def _part(needed: list[str], **properties: JsonDict) -> JsonDict:
    return {"type": "object", "required": [*needed], "properties": {**properties}}


def _maybe(schema: JsonDict) -> JsonDict:
    return {**schema, "type": [str(schema["type"]), "null"]}


TransitionDocument = Annotated[
    dict[str, JsonValue],
    Body(),
    _document(["from_state", "to_state"], from_state=_NEEDED, to_state=_NEEDED, artifacts=_TEXTS, reason=_TEXT),
]
"""A move, and what it leaves."""
StepDocument = Annotated[
    dict[str, JsonValue],
    Body(),
    _document(
        ["step_id", "status"],
        step_id={"type": "integer"},
        status={"type": "string", "enum": [status.value for status in StepStatus]},
        commits=_TEXTS,
        checkpoint=_maybe(
            _part(
                ["at"],
                at={"type": "string", "format": "date-time"},
                reason=_TEXT,
                work_in_progress=_TEXT,
                uncommitted_files=_TEXTS,
            )
        ),
    ),
]
"""News of a step."""
FailureDocument = Annotated[
    dict[str, JsonValue],
    Body(),
    _document(
        ["actual_outcome"],
        id=_TEXT,
        occurred_at=_WHEN,
        state=_TEXT,
        agent=_TEXT,
        step=_TEXT,
        attempted_action=_maybe(
            _part(
                [],
                description=_TEXT,
                command=_TEXT,
                related_plan_step=_TEXT,
                related_design=_TEXT,
                modified_files=_TEXTS,
            )
        ),
        expected_outcome=_TEXT,
        actual_outcome=_part(
            ["type", "summary"],
            type=_NEEDED,
            summary=_NEEDED,
            details=_TEXT,
            exit_code={"type": ["integer", "null"]},
            log_file=_TEXT,
        ),
        agent_analysis=_maybe(_part([], root_cause_hypothesis=_TEXT, confidence=_TEXT, suggested_fix=_TEXT)),
        resolution=_maybe(_part([], action=_TEXT, transitioned_to=_TEXT, retry_count={"type": ["integer", "null"]})),
    ),
]
"""What was tried, what came of it, and what it may mean."""


class ForceBody(BaseModel):
    """Which stage to move a task to, and why."""

    stage: Annotated[str, Field(min_length=1, max_length=LINE)]
    reason: Annotated[str, Field(min_length=1, max_length=PARAGRAPH, pattern=r"\S")]
