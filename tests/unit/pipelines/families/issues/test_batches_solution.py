"""Solutions and results: what is read, what is refused, the order of tasks, and the score."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.issues.document import LARGEST, InvalidField
from orchestrator.pipelines.families.issues.result import ResultStatus, read_result
from orchestrator.pipelines.families.issues.solution import (
    MOST_TASKS,
    in_order,
    read_solution,
    score_of,
    score_problems,
)
from tests.unit.pipelines.families.issues.test_batches_state import JSON_VALUES


def task(name: str = "T1", **more: Any) -> dict[str, Any]:
    """A task with everything that the score looks at."""
    return {
        "id": name,
        "title": "Reject empty names",
        "action": "Fix",
        "scope": "shop/names.py",
        "description": "Names of white space pass.",
        "modification_points": [{"file": "shop/names.py", "target": "is_name", "change": "strip first"}],
        "implementation": ["Strip the name.", "Return False if nothing is left."],
        "test": {"commands": ["pytest tests/test_names.py"], "unit": ["blank name"]},
        "acceptance": {"criteria": ["is_name(' ') is False"], "verification": ["the new test passes"]},
        "estimated_minutes": 20,
        **more,
    }


def solution(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A solution for ISS-20260528-001."""
    return {
        "id": "SOL-ISS-20260528-001-1",
        "issue_id": "ISS-20260528-001",
        "description": "Check names before they are stored.",
        "tasks": [*tasks] or [task()],
        "analysis": {"risk": "low", "impact": "medium", "complexity": "low"},
        **more,
    }


def test_a_whole_solution_is_read_and_passes() -> None:
    read = read_solution(json.dumps(solution()), "ISS-20260528-001")
    assert (read.id, read.complexity, read.tasks[0].files) == ("SOL-ISS-20260528-001-1", "low", ("shop/names.py",))
    assert score_of(read).total == 1
    assert score_problems(read) == ()


@pytest.mark.parametrize(
    ("changed", "field", "reason"),
    [
        ({"id": "SOL-1"}, "id", "must be SOL-ISS-20260528-001- and a number"),
        ({"id": "SOL-ISS-20260528-001-1-and-more"}, "id", "must be SOL-"),
        ({"issue_id": "ISS-2"}, "issue_id", "another issue than ISS-20260528-001"),
        ({"tasks": []}, "tasks", "at least one task"),
        ({"tasks": "none"}, "tasks", "must be a list"),
        ({"tasks": [task(action="Ponder")]}, "tasks[0].action", "'Ponder' is unknown"),
        ({"tasks": [task(), task("T2", title=" ")]}, "tasks[1].title", "empty"),
        ({"tasks": [task(acceptance={"criteria": []})]}, "tasks[0].acceptance.criteria", "at least one criterion"),
        ({"tasks": [task(), task()]}, "tasks", "T1 is the id of more than one task"),
        ({"tasks": [task(depends_on=["T9"])]}, "tasks", "T1 depends on 'T9', which is no task"),
        (
            {"tasks": [task(depends_on=["T2"]), task("T2", depends_on=["T1"]), task("T3")]},
            "tasks",
            "these depend on each other in a circle: T1, T2",
        ),
        ({"tasks": [task(f"T{number}") for number in range(MOST_TASKS + 1)]}, "tasks", "at most 50"),
        ({"analysis": {"risk": "extreme"}}, "analysis.risk", "is unknown"),
        ({"score": 7}, "score", "a number from 0 to 1"),
        ({"description": None}, "description", "missing"),
    ],
)
def test_a_malformed_solution_is_refused_with_field_and_reason(
    changed: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        read_solution(json.dumps(solution(**changed)), "ISS-20260528-001")
    assert caught.value.field == field
    assert reason in caught.value.reason


def test_a_task_without_dependencies_that_two_others_need_is_no_circle() -> None:
    tasks = [task(), task("T2", depends_on=["T1"]), task("T3", depends_on=["T1"]), task("T4", depends_on=["T3", "T2"])]
    read = read_solution(json.dumps(solution(*tasks[::-1])))
    assert [one.id for one in in_order(read.tasks)] == ["T1", "T3", "T2", "T4"]


def test_the_other_schema_of_the_original_tool_is_read_too() -> None:
    tasks = [
        task(action="Update", acceptance=["it works"], modification_points=["a.py", "b.py"]),
        task("T2", action="delete"),
    ]
    read = read_solution(json.dumps(solution(*tasks, id="SOL-ISS-20260528-001-x7k2", is_bound=True)))
    assert [one.action for one in read.tasks] == ["Modify", "Remove"]
    assert (read.tasks[0].criteria, read.tasks[0].files) == (("it works",), ("a.py", "b.py"))


@pytest.mark.parametrize(
    ("changed", "total"),
    [
        ({"implementation": []}, 0.9),
        ({"implementation": [], "modification_points": [], "scope": "", "description": " "}, 0.7),
        ({"test": {}, "acceptance": {"criteria": ["x"]}}, 0.7),
        ({"estimated_minutes": None}, 0.9),
    ],
)
def test_the_score_counts_completeness_tests_and_estimates(changed: dict[str, Any], total: float) -> None:
    read = read_solution(json.dumps(solution(task(**changed))))
    score = score_of(read)
    assert score.total == total
    assert score.lacking
    problems = score_problems(read)
    assert bool(problems) == (total < 0.8)
    if problems:
        assert f"its quality is {total:.2f}, and 0.8 is needed" in problems[0]


@given(
    st.dictionaries(st.sampled_from(sorted(solution())), JSON_VALUES),
    st.dictionaries(st.sampled_from(sorted(task())), JSON_VALUES),
)
def test_no_text_makes_the_check_of_a_solution_raise(changed: dict[str, Any], in_task: dict[str, Any]) -> None:
    with suppress(InvalidField):
        assert score_of(read_solution(json.dumps(solution(task(**in_task), **changed)))).total <= 1


@pytest.mark.parametrize("text", ["", "not json", "[]", "[" * 200_000, "{}" * 1000, '{"id": {}}'])
def test_a_text_that_is_no_solution_is_never_one(text: str) -> None:
    with pytest.raises(InvalidField):
        read_solution(text)


@pytest.mark.parametrize("depth", [100, 300, 1000, 5000])
def test_a_solution_or_result_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    text = json.dumps(solution())[:-1] + ', "more": ' + "[" * depth + "]" * depth + "}"
    for read in (read_solution, read_result):
        with pytest.raises(InvalidField, match=r"nested more than 100 deep|depth limit"):
            read(text)


def test_a_solution_or_result_of_more_than_256_kib_is_refused() -> None:
    result = {"issue_id": "I", "solution_id": "S", "status": "completed"}
    for read, document in ((read_solution, solution()), (read_result, result)):
        empty = len(json.dumps({**document, "more": ""}, ensure_ascii=False).encode())
        for size, filling in ((LARGEST, "x" * (LARGEST - empty)), (LARGEST + 1, "ö" * ((LARGEST - empty) // 2) + "xx")):
            text = json.dumps({**document, "more": filling}, ensure_ascii=False)
            for form in (text, text.encode()):
                if size == LARGEST:
                    read(form)
                    continue
                with pytest.raises(InvalidField, match="at most 256 KiB are allowed"):
                    read(form)


def test_a_huge_solution_is_judged_in_proportion_to_its_size() -> None:
    many = [task(f"T{number}", depends_on=[f"T{one}" for one in range(number)]) for number in range(MOST_TASKS)]
    begun = time.perf_counter()
    assert score_problems(read_solution(json.dumps(solution(*reversed(many))))) == ()
    assert time.perf_counter() - begun < 1


RESULT: dict[str, Any] = {
    "id": "EXR-ISS-1-1",
    "issue_id": "ISS-1",
    "solution_id": "SOL-ISS-1-1",
    "status": "completed",
    "executed_tasks": [{"task_id": "T1", "status": "completed", "files_modified": ["a.py", "b.py"]}],
    "verification": {"all_tests_passed": True, "all_acceptance_met": True, "no_regressions": True},
}


def test_a_completed_result_names_its_files() -> None:
    result = read_result(json.dumps(RESULT), "ISS-1", "SOL-ISS-1-1")
    assert (result.status, result.failure, result.files_modified) == (ResultStatus.COMPLETED, "", ("a.py", "b.py"))


@pytest.mark.parametrize(
    ("changed", "failure"),
    [
        ({"status": "failed", "failure_reason": "the API is gone"}, "the API is gone"),
        ({"status": "failed"}, "no reason is given"),
        ({"executed_tasks": [{"task_id": "T2", "status": "failed"}]}, "T2 is failed"),
        ({"executed_tasks": [{"task_id": "T2", "status": "pending"}]}, "T2 is pending"),
        ({"verification": {"all_tests_passed": False}}, "all_tests_passed is false"),
    ],
)
def test_what_is_reported_as_failed_has_failed(changed: dict[str, Any], failure: str) -> None:
    result = read_result(json.dumps({**RESULT, **changed}))
    assert (result.status, result.failure) == (ResultStatus.FAILED, failure)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"status": "success?"}, "status"),
        ({"status": None}, "status"),
        ({"issue_id": "ISS-2"}, "issue_id"),
        ({"solution_id": "SOL-ISS-1-2"}, "solution_id"),
        ({"executed_tasks": [{"task_id": "T1", "status": "great"}]}, "executed_tasks[0].status"),
        ({"verification": {"no_regressions": "yes"}}, "verification.no_regressions"),
    ],
)
def test_a_result_that_cannot_be_read_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        read_result(json.dumps({**RESULT, **changed}), "ISS-1", "SOL-ISS-1-1")
    assert caught.value.field == field


@given(st.dictionaries(st.sampled_from(sorted(RESULT)), JSON_VALUES))
def test_no_result_makes_the_reader_raise_anything_else(changed: dict[str, Any]) -> None:
    with suppress(InvalidField):
        read_result(json.dumps({**RESULT, **changed}))
