"""JSON Schemas: written documents are valid, and wrong ones are not."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from orchestrator.core.task.task import Task
from orchestrator.formats.front_matter import read_front_matter
from orchestrator.formats.json_schema import schema_of
from orchestrator.pipelines.schemas import pipeline_schema, role_schema, state_schema
from orchestrator.storage.state_document import to_document
from tests.unit.playbook import a_task, at_work
from tests.unit.storage.test_state_document import much_lived

STATE = Draft202012Validator(state_schema())
PIPELINE = Draft202012Validator(pipeline_schema())


@pytest.mark.parametrize("task", [a_task(), at_work(), much_lived()], ids=["submitted", "at work", "much lived"])
def test_written_states_are_valid(task: Task) -> None:
    STATE.validate(json.loads(json.dumps(to_document(task))))


@pytest.mark.parametrize("key", ["ticket_id", "states", "failure_summary", "config"])
def test_a_state_with_a_missing_key_is_invalid(key: str) -> None:
    document = to_document(a_task())
    del document[key]
    with pytest.raises(ValidationError, match=key):
        STATE.validate(document)


def test_a_state_with_an_unknown_key_or_value_is_invalid() -> None:
    with pytest.raises(ValidationError, match="no_such"):
        STATE.validate(to_document(a_task()) | {"no_such": 1})
    with pytest.raises(ValidationError, match="nowhere"):
        STATE.validate(to_document(a_task()) | {"status": "nowhere"})


@pytest.mark.parametrize("path", sorted(Path("config/pipelines").glob("*.toml")), ids=lambda path: path.stem)
def test_every_bundled_pipeline_is_valid_and_a_misspelt_key_is_not(path: Path) -> None:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    PIPELINE.validate(document)
    document["stages"][document["start"]]["gards"] = []
    with pytest.raises(ValidationError):
        PIPELINE.validate(document)


@pytest.mark.parametrize("path", sorted(Path("agents").glob("*.md")), ids=lambda path: path.stem)
def test_every_bundled_role_is_valid(path: Path) -> None:
    read = read_front_matter(path.read_text(encoding="utf-8"), str(path))
    assert read is not None
    flags = {"true": True, "false": False}
    front = {
        key: flags.get(value, value) if isinstance(value, str) else value
        for key, value in dict(read[0].everything()).items()
    }
    Draft202012Validator(role_schema()).validate(front)


def test_a_type_without_a_json_form_has_no_schema() -> None:
    @dataclass
    class Odd:
        what: object

    with pytest.raises(TypeError, match="object"):
        schema_of(Odd)
