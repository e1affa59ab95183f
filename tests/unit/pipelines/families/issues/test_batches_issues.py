"""Issues from JSON lines and from texts."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.issue import (
    IssueStatus,
    issues_in_text,
    read_issues,
    to_lines,
    unfinished,
)
from tests.unit.pipelines.families.issues.test_batches_solution import solution
from tests.unit.pipelines.families.issues.test_batches_state import JSON_VALUES

ISSUE: dict[str, Any] = {
    "id": "ISS-20260528-001",
    "title": "Names may be\nempty",
    "context": "They should not.",
    "status": "queued",
    "priority": 2,
    "tags": ["shop"],
    "feedback": [{"type": "failure", "stage": "execute", "content": "the tests failed"}],
    "solution": solution(),
}


def lines(*issues: dict[str, Any]) -> str:
    """JSON lines."""
    return "\n".join(map(json.dumps, issues))


def test_an_issue_of_the_original_tool_is_read_with_its_solution_and_feedback() -> None:
    (issue,) = read_issues(lines(ISSUE) + "\n\n")
    assert (issue.title, issue.description, issue.priority) == ("Names may be empty", "They should not.", "2")
    assert issue.status is IssueStatus.PLANNED
    assert issue.solution is not None
    assert issue.feedback == ("failure: the tests failed",)
    assert read_issues(to_lines([issue])) == (issue,)


@pytest.mark.parametrize("form", [lambda text: f"[{text}]", lambda text: f'{{"issues": [{text}]}}', lambda text: text])
def test_a_list_an_object_and_one_line_are_read_alike(form: Any) -> None:
    assert [one.id for one in read_issues(form(json.dumps(ISSUE)))] == [ISSUE["id"]]


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "", "no issue is named"),
        ("{}", "id", "missing"),
        (lines({"id": "A", "title": "x"}, {"id": "A", "title": "y"}), "id", "A is the id of more than one issue"),
        (lines({"id": "A"}), "A.title", "missing"),
        (lines({"id": "../../etc", "title": "x"}), "id", "must be letters, digits and dashes"),
        (lines({"id": "A", "title": "x", "depends_on": ["B"]}), "A.depends_on", "'B' is no issue of this batch"),
        (lines({"id": "A", "title": "x", "status": "who knows"}), "A.status", "is unknown"),
        (lines({**ISSUE, "solution": solution(issue_id="ISS-2")}), f"{ISSUE['id']}.solution.issue_id", "another issue"),
        (lines({"id": "A", "title": "x"}) + "\nnot json", "line 2", "no JSON"),
        ("[{]", "", "no JSON"),
        ("[1]", "issues[0]", "must be a JSON object"),
        ("\n".join(lines({"id": f"I{number}", "title": "x"}) for number in range(1001)), "", "more than 1000 issues"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(text: str, field: str, reason: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_issues(text)
    assert caught.value.field in (field, f"line 1.{field}")
    assert reason in caught.value.reason


def test_finished_issues_are_left_out_with_what_depends_on_them() -> None:
    done, left = {"id": "A", "title": "x", "status": "completed"}, {"id": "B", "title": "y", "depends_on": ["A"]}
    (issue,) = unfinished(read_issues(lines(done, left)))
    assert (issue.id, issue.depends_on) == ("B", ())


def test_every_section_of_a_text_is_an_issue_and_code_is_none() -> None:
    text = "# Bugs\nAll in the shop.\n\n## Empty names\nThey pass.\n```\n## no heading\n```\n## Slow list ##\n"
    first, second = issues_in_text(text)
    assert (first.id, first.title) == ("ISS-001", "Empty names")
    assert first.description == "They pass.\n```\n## no heading\n```\n\n# Bugs\nAll in the shop."
    assert (second.id, second.title) == ("ISS-002", "Slow list")


def test_every_item_of_a_list_is_an_issue() -> None:
    first, second, third = issues_in_text("- Empty names\n  They pass.\n\n- [ ] Slow list\n3. Typo\n")
    assert [one.title for one in (first, second, third)] == ["Empty names", "Slow list", "Typo"]
    assert first.description == "They pass."


def test_a_text_without_a_list_is_one_issue() -> None:
    (issue,) = issues_in_text("Names may be empty.\nThey should not:\n- one\n- two\n")
    assert issue.title == "Names may be empty."
    assert issue.description.endswith("- two")


def test_json_in_a_text_is_read_as_json() -> None:
    assert issues_in_text(f"\n{lines(ISSUE)}") == read_issues(lines(ISSUE))
    with pytest.raises(InvalidField):
        issues_in_text("{not json")


@pytest.mark.parametrize("text", ["", " \n", "# \n##\n", "\n" * 1_000_000])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="empty"):
        issues_in_text(text)


@pytest.mark.parametrize("before", ["", '{"id": "ISS-1", "title": "Another"}\n'])
def test_an_issue_may_be_nested_a_hundred_deep_and_no_deeper(before: str) -> None:
    for inner in ("[" * 99 + "]" * 99, '{"a":' * 98 + "{}" + "}" * 98):
        assert read_issues(before + json.dumps(ISSUE)[:-1] + f', "more": {inner}}}')
    for inner in ("[" * 100 + "]" * 100, "[" * 300 + "]" * 300, '{"a":' * 99 + "{}" + "}" * 99):
        with pytest.raises(InvalidField, match="nested more than 100 deep"):
            read_issues(before + json.dumps(ISSUE)[:-1] + f', "more": {inner}}}')


def test_a_bound_solution_of_more_than_256_kib_is_refused() -> None:
    bound = solution(id=f"SOL-{ISSUE['id']}-1", issue_id=ISSUE["id"], more="x" * 256 * 1024)
    with pytest.raises(InvalidField, match=r"ISS-20260528-001.solution: .* at most 256 KiB"):
        read_issues(lines({**ISSUE, "solution": bound}))


@given(st.text())
def test_no_text_makes_the_reader_raise_anything_else(text: str) -> None:
    with suppress(InvalidField):
        assert issues_in_text(text)


@given(st.dictionaries(st.sampled_from(sorted(ISSUE)), JSON_VALUES))
def test_no_issue_makes_the_reader_raise_anything_else(changed: dict[str, Any]) -> None:
    with suppress(InvalidField):
        assert read_issues(lines({**ISSUE, **changed}))


@pytest.mark.parametrize(
    "text", ["- x\n" * 1000, "- [ ] " * 200_000, "```\n" * 200_000, "## x\n" * 1000, "-" * 1_000_000]
)
def test_hostile_texts_are_read_in_proportion_to_their_size(text: str) -> None:
    begun = time.perf_counter()
    with suppress(InvalidField):
        issues_in_text(text)
    assert time.perf_counter() - begun < 3
