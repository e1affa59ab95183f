"""An earlier batch taken up again: of this program, or of the original tool."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import IssueStatus, read_issues, to_lines, unfinished
from orchestrator.pipelines.families.issues.resumption import issues_of_batch
from tests.unit.pipelines.families.issues.test_batches_solution import solution
from tests.unit.pipelines.families.issues.test_batches_state import INITIAL

LISTED = "\n".join(
    json.dumps({"id": name, "title": f"Issue {name}", "description": f"Do {name}.", "depends_on": after})
    for name, after in (("A", []), ("B", ["A"]), ("C", ["A"]))
)


def state(**issues: dict[str, Any]) -> str:
    """The state of a batch with these issues."""
    whole = {name: {"id": name, "title": f"Issue {name}", **one} for name, one in issues.items()}
    return json.dumps({**INITIAL, "status": "running", "phase": "executing", "work_dir": "/w", "issues": whole})


def plan(key: str) -> str:
    return json.dumps(solution(id=f"SOL-{key}-1", issue_id=key))


def test_what_is_completed_is_left_out_and_plans_and_reasons_are_kept() -> None:
    ended = state(A={"status": "completed"}, B={"status": "failed", "error": "no API"}, C={"status": "planning"})
    found = issues_of_batch(ended, LISTED, {"A": plan("A"), "B": plan("B")})
    second, third = unfinished(found)
    assert (second.id, second.description, second.depends_on) == ("B", "Do B.", ())
    assert second.feedback == ("failure: no API",)
    assert second.solution is not None
    assert (third.status, third.solution) == (IssueStatus.REGISTERED, None)
    assert read_issues(to_lines(found))[1].solution == second.solution


def test_a_batch_of_the_original_tool_has_titles_and_plans() -> None:
    legacy = json.loads(state(A={"status": "queued"}, B={"status": "paused", "title": ""}))
    legacy |= {"phase": "initialized", "work_dir": None, "context": {"work_dir": ".workflow/.scratchpad/x"}}
    first, second = issues_of_batch(json.dumps(legacy), "", {"A": plan("A"), "B": "I planned it."})
    assert (first.title, first.status) == ("Issue A", IssueStatus.PLANNED)
    assert (second.title, second.status, second.solution) == ("B", IssueStatus.REGISTERED, None)


@pytest.mark.parametrize("text", ["", "{}", json.dumps(INITIAL), '{"status": "lost"}'])
def test_a_folder_without_a_usable_state_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        issues_of_batch(text, LISTED, {})


@given(st.text(), st.text())
def test_no_file_makes_the_reader_raise_anything_else(listed: str, planned: str) -> None:
    try:
        assert issues_of_batch(state(A={"status": "failed"}), listed, {"A": planned})
    except InvalidField as error:
        assert error.reason  # noqa: PT017 - which texts are refused is not what is tested
