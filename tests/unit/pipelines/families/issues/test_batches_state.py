"""The state of a batch as its file has it: canonical values, legacy spellings, and refusals with field and reason."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.issues.batch_state import BatchPhase, BatchStatus, QueueStatus, read_state
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import IssueStatus

INITIAL: dict[str, Any] = {
    "status": "pending",
    "phase": "init",
    "work_dir": "",
    "issues": {},
    "queue": [],
    "completed_actions": [],
    "context": {"total_issues": 0, "completed_count": 0, "failed_count": 0},
    "errors": [],
    "created_at": "2026-01-29T07:15:42.000Z",
    "updated_at": "2026-01-29T07:15:42.000Z",
}
ONE_ISSUE: dict[str, Any] = {"id": "ISS-1", "title": "One", "status": "planned", "solution_id": "SOL-ISS-1-1"}
ONE_ITEM: dict[str, Any] = {"item_id": "S-1", "issue_id": "ISS-1", "solution_id": "SOL-ISS-1-1", "status": "pending"}


def with_one(**more: Any) -> dict[str, Any]:
    """A running state with one issue."""
    return {**INITIAL, "status": "running", "work_dir": "/w", "issues": {"ISS-1": ONE_ISSUE}, **more}


def test_the_initial_state_is_accepted_and_written_as_it_was() -> None:
    state = read_state(json.dumps(INITIAL))
    assert (state.status, state.phase) == (BatchStatus.PENDING, BatchPhase.INIT)
    assert json.dumps(state.document) == json.dumps(INITIAL)


@pytest.mark.parametrize(
    ("changed", "field", "reason"),
    [
        ({"status": "failed"}, "status", "is unknown"),
        ({"status": None}, "status", "missing"),
        ({"phase": "cooking"}, "phase", "is unknown"),
        ({"phase": "planning", "work_dir": ""}, "work_dir", "empty"),
        ({"issues": []}, "issues", "must be a JSON object, not a list"),
        ({"issues": {"ISS-1": {**ONE_ISSUE, "status": "lost"}}}, "issues.ISS-1.status", "'lost' is unknown"),
        ({"issues": {"ISS-1": {**ONE_ISSUE, "id": "ISS-2"}}}, "issues.ISS-1.id", "listed as 'ISS-1'"),
        ({"issues": {"ISS-1": 7}}, "issues.ISS-1", "not a number"),
        ({"queue": {}}, "queue", "must be a list, not an object"),
        ({"queue": [{**ONE_ITEM, "status": "waiting"}]}, "queue[0].status", "'waiting' is unknown"),
        ({"queue": [{**ONE_ITEM, "issue_id": "ISS-9"}]}, "queue[0].issue_id", "no issue of the state"),
        ({"completed_actions": [1]}, "completed_actions[0]", "must be a text"),
        ({"errors": [{"message": ["x"]}]}, "errors[0].message", "must be a text, not a list"),
        ({"work_dir": True}, "work_dir", "must be a text, not true or false"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field_and_the_reason(
    changed: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        read_state(json.dumps(with_one(**changed)))
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_legacy_spellings_become_canonical() -> None:
    state = read_state(
        json.dumps(
            with_one(
                phase="initialized",
                work_dir=None,
                context={"work_dir": "/elsewhere"},
                issues={
                    "A": {"status": "queued", "bound_solution_id": "SOL-A-1"},
                    "B": {"status": "paused"},
                },
                queue=[{**ONE_ITEM, "issue_id": "A", "status": "ready"}],
                errors=["it broke"],
            )
        )
    )
    assert state.phase is BatchPhase.INIT
    assert read_state(json.dumps(with_one(phase="completed"))).phase is BatchPhase.COMPLETE
    assert state.work_dir == "/elsewhere"
    assert state.issues["A"].status is IssueStatus.PLANNED
    assert state.issues["A"].solution_id == "SOL-A-1"
    assert state.issues["B"].status is IssueStatus.REGISTERED
    assert state.queue[0].status is QueueStatus.PENDING
    assert state.errors[0].message == "it broke"
    assert state.context.total_issues == 2


def test_a_state_that_was_written_is_read_as_it_was() -> None:
    state = read_state(json.dumps(with_one(queue=[ONE_ITEM], phase="executing")))
    assert read_state(json.dumps(state.document)) == state


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(INITIAL)), JSON_VALUES))
def test_no_document_makes_the_reader_raise_anything_else(changed: dict[str, Any]) -> None:
    with suppress(InvalidField):
        read_state(json.dumps(with_one(**changed)))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"status": "\ud800"}', b"\xff\xfe"])
def test_what_is_no_object_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidField):
        read_state(text)
