"""Field names in camelCase, and everything that somebody else named as it was."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import get_args, get_origin, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.events import events
from orchestrator.core.task.task import Task
from orchestrator.formats.camel_case import KEYED_BY_DATA, camel_keys, camel_patch
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.diffs.patch import applied, difference

NAMES = st.sampled_from(["states", "started_at", "unit_test", "results", "at", "DESIGN_V1", "check_options"])
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.integers(0, 2), lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3)
)
DOCUMENTS: st.SearchStrategy[JsonObject] = st.dictionaries(NAMES, VALUES, max_size=4)


def mappings(kind: object, name: str, seen: set[object]) -> Iterator[str]:
    """Yield the names of all fields below a type whose values have data as keys."""
    if (origin := get_origin(kind)) is not None:
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            yield name
        for inner in get_args(kind):
            yield from mappings(inner, name, seen)
    elif inspect.isclass(kind) and is_dataclass(kind) and kind not in seen:
        seen.add(kind)
        for name_of, hint in get_type_hints(kind).items():
            if name_of in {one.name for one in fields(kind)}:
                yield from mappings(hint, name_of, seen)


def test_every_field_of_tasks_and_events_with_data_as_keys_is_known() -> None:
    seen: set[object] = set()
    kinds = (Task, *(one for one in vars(events).values() if inspect.isclass(one)))
    found = {name for kind in kinds for name in mappings(kind, "", seen)}
    assert found >= {"stages", "budgets"}
    assert found <= KEYED_BY_DATA


def test_fields_are_renamed_and_names_of_stages_and_checks_are_not() -> None:
    document: Json = {"task_id": "T", "checks": {"unit_test": "x"}, "states": {"A_B": {"started_at": None}}}
    assert camel_keys(document) == {"taskId": "T", "checks": {"unit_test": "x"}, "states": {"A_B": {"startedAt": None}}}
    assert camel_keys([{"step_id": 1}]) == [{"stepId": 1}]


def test_a_patch_names_the_fields_as_its_document_does() -> None:
    patch: Json = [
        {"op": "add", "path": "/states/A_B/last_update", "value": {"exit_code": 1}},
        {"op": "replace", "path": "/check_options/unit_test", "value": {"is_lost": True}},
        {"op": "remove", "path": "/block_reason"},
    ]
    assert camel_patch(patch) == [
        {"op": "add", "path": "/states/A_B/lastUpdate", "value": {"exitCode": 1}},
        {"op": "replace", "path": "/checkOptions/unit_test", "value": {"isLost": True}},
        {"op": "remove", "path": "/blockReason"},
    ]


@given(DOCUMENTS, DOCUMENTS)
def test_a_renamed_patch_leads_from_one_renamed_document_to_the_other(old: JsonObject, new: JsonObject) -> None:
    patch = camel_patch(list[Json](difference(old, new)))
    before, after = camel_keys(old), camel_keys(new)
    assert isinstance(before, dict)
    assert isinstance(patch, list)
    assert applied(before, [one for one in patch if isinstance(one, dict)]) == after
