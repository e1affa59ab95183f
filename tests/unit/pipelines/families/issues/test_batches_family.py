"""What the family of issues decides: how a batch begins, what each issue becomes, and what its files say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from orchestrator.core.family.family import Submitted
from orchestrator.core.task.children import Child, ChildPlan
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.progress import StageRecord
from orchestrator.core.task.task import Task
from orchestrator.pipelines.families.issues.batch import ISSUES_FILE, OPTIONS_FILE, SOLUTION_FILE, begin, read_children
from orchestrator.pipelines.families.issues.document import InvalidField
from orchestrator.pipelines.families.issues.family import ISSUES, brief, examine
from orchestrator.pipelines.families.issues.guards import (
    NothingExecuted,
    ResultCompleted,
    ResultFailed,
    ResultReported,
)
from orchestrator.pipelines.families.issues.progress import RESULT_FILE
from tests.fakes.tasks import submitted
from tests.unit.pipelines.families.issues.test_batches_issues import lines
from tests.unit.pipelines.families.issues.test_batches_solution import RESULT, solution, task

ONE, TWO = {"id": "A", "title": "One"}, {"id": "B", "title": "Two", "depends_on": ["A"]}
HUGE = "".join(
    json.dumps({"id": f"I{number}", "title": "x", "description": "y" * 60_000}) + "\n" for number in range(40)
)
BOUND = {**ONE, "solution": solution(id="SOL-A-1", issue_id="A")}


@dataclass(frozen=True, slots=True)
class Folder:
    """A task's folder, and no repository."""

    files: Mapping[str, str] = field(default_factory=dict)

    def artifact(self, name: str) -> str | None:
        return self.files.get(name)

    def committed(self, path: str) -> str | None:
        del path
        return None

    def names(self, folder: str) -> tuple[str, ...]:
        del folder
        return ()


def begun(issues: str | None = None, text: str = "", pipeline: str = "issue-plan-execute", **options: Any) -> Folder:
    """The folder of a batch that was begun with these issues."""
    given = {} if issues is None else {ISSUES_FILE: issues}
    given |= {OPTIONS_FILE: json.dumps(options)} if options else {}
    return Folder(begin(Submitted(text=text, title="", pipeline=pipeline, files=given), Folder()).files)


def children(folder: Folder) -> dict[str, str]:
    """The pipeline of every issue of a batch."""
    return {one.key: one.pipeline for one in read_children(folder.files[ISSUES_FILE], folder)}


def test_each_issue_becomes_a_child_with_its_text() -> None:
    whole = {**ONE, "description": "It breaks.", "priority": "high", "tags": ["shop"], "feedback": ["too slow"]}
    folder = begun(lines(whole, TWO))
    first, second = read_children(folder.files[ISSUES_FILE], folder)
    assert (first.key, first.title, first.after, second.after) == ("A", "One", (), ("A",))
    assert first.text == (
        "It breaks.\n\n- Priority: high\n- Tags: shop\n\n## What earlier tries came to\n\n- too slow\n"
    )
    assert second.text == "Two\n"
    assert children(folder) == {"A": "issue", "B": "issue"}


def test_an_issue_with_a_solution_is_only_carried_out_and_gets_it_as_a_file() -> None:
    folder = begun(lines(BOUND, TWO))
    assert children(folder) == {"A": "issue-execute", "B": "issue"}
    first, _ = read_children(folder.files[ISSUES_FILE], folder)
    assert json.loads(first.files[SOLUTION_FILE]) == BOUND["solution"]
    unbound, _ = read_children(lines(ONE, TWO), folder)
    assert first.plan.digest != unbound.plan.digest


def test_issues_come_from_the_text_where_no_file_is_given() -> None:
    assert children(begun(text="- Names may be empty\n- The list is slow\n")) == {
        "ISS-001": "issue",
        "ISS-002": "issue",
    }


def test_what_is_skipped_is_left_out() -> None:
    assert children(begun(lines(BOUND, TWO), skip_execute=True)) == {"B": "issue-plan"}
    assert children(begun(lines(BOUND), skip_plan=True)) == {"A": "issue-execute"}


def test_finished_issues_are_not_done_again() -> None:
    assert children(begun(lines({**ONE, "status": "completed"}, TWO))) == {"B": "issue"}


@pytest.mark.parametrize(
    ("issues", "options", "reason"),
    [
        (lines({**ONE, "status": "completed"}), {}, "nothing is left to do: all 1 issues are completed"),
        (lines(BOUND), {"skip_execute": True}, "all 1 issues are planned"),
        (lines(BOUND, TWO), {"skip_plan": True}, "B: it has no solution, and this batch does not plan any"),
        (lines(BOUND), {"skip_plan": True, "skip_execute": True}, "neither plans nor executes has nothing to do"),
        (lines(ONE), {"skip_sleep": True}, "skip_sleep: there is no such option"),
        ("[WITHHELD: private_key]", {}, "it is no JSON"),
        (HUGE, {}, "more than 2 MiB"),
    ],
)  # fmt: skip
def test_a_batch_that_cannot_begin_is_refused_with_the_reason(
    issues: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        begun(issues, **options)
    assert reason in str(caught.value)


def test_one_issue_alone_begins_as_it_was_submitted() -> None:
    assert begun(text="- a\n- b\n", pipeline="issue").files == {}
    with pytest.raises(InvalidField, match="is for one issue"):
        begun(lines(ONE), pipeline="issue")
    with pytest.raises(InvalidField, match=r"solution\.json: it is missing"):
        begun(pipeline="issue-execute")
    given = Submitted(text="", title="", pipeline="issue-execute", files={SOLUTION_FILE: json.dumps(solution())})
    assert begin(given, Folder()).files == {}


def child(**changes: Any) -> Task:
    """The task of the issue A."""
    whole = submitted("T.A", parent="T", stages={"PLAN": StageRecord(visits=1), "EXECUTE": StageRecord(visits=2)})
    return replace(whole, ticket=replace(whole.ticket, key="T.A"), **changes)


def test_a_turn_names_the_ids_that_files_must_have() -> None:
    assert brief(child(), "PLAN") == "issue_id: A\nsolution id: SOL-A-1"
    assert brief(child(), "EXECUTE").endswith("result id: EXR-A-2")
    assert brief(child(), "CHECKS") == ""


def test_a_solution_is_examined_for_its_own_issue() -> None:
    own = json.dumps(solution(id="SOL-A-1", issue_id="A"))
    assert examine(child(), SOLUTION_FILE, own, Folder()).problems == ()
    for text in (json.dumps(solution()), "I planned it.", ""):
        assert examine(child(), SOLUTION_FILE, text, Folder()).problems
    poor = json.dumps(solution(task(test={}, acceptance={"criteria": ["x"]}), id="SOL-A-1", issue_id="A"))
    assert "its quality is 0.70" in examine(child(), SOLUTION_FILE, poor, Folder()).problems[0]


def facts(**changes: Any) -> dict[str, FileFacts]:
    """What the daemon finds in a result."""
    text = json.dumps({**RESULT, "issue_id": "A", **changes})
    found = examine(child(), RESULT_FILE, text, Folder())
    return {RESULT_FILE: FileFacts(chars=1, problems=found.problems, marks=found.marks)}


REPORTED, COMPLETED, FAILED = (kind(file=RESULT_FILE) for kind in (ResultReported, ResultCompleted, ResultFailed))


def test_what_is_reported_as_completed_must_be_committed() -> None:
    done = Evidence(files=facts(), commits=("c1",))
    assert REPORTED.missing(child(), done) == ()
    assert COMPLETED.missing(child(), done) == ()
    assert FAILED.missing(child(), done) == ("result.json says completed",)
    assert REPORTED.missing(child(), Evidence(files=facts())) == (
        "result.json says completed, but nothing is committed",
    )
    assert REPORTED.missing(child(), replace(done, dirty=("a.py",))) == ("uncommitted changes: a.py",)


def test_what_is_reported_as_failed_has_failed_whatever_is_committed() -> None:
    failed = Evidence(files=facts(status="failed", failure_reason="the API is gone"), commits=("c1",), dirty=("a.py",))
    assert REPORTED.missing(child(), failed) == ()
    assert FAILED.missing(child(), failed) == ()
    assert COMPLETED.missing(child(), failed) == ("the executor reports: the API is gone",)


@pytest.mark.parametrize("guard", [REPORTED, COMPLETED, FAILED])
def test_a_result_that_cannot_be_read_says_nothing(guard: Any) -> None:
    assert guard.missing(child(), Evidence()) == ("result.json not found",)
    (lack,) = guard.missing(child(), Evidence(files=facts(status="fine, thanks"), commits=("c1",)))
    assert "is unknown" in lack


def test_a_batch_that_only_plans_is_known_by_its_children() -> None:
    def batch(*pipelines: str) -> Task:
        plans = [ChildPlan(key=f"I{number}", title="", pipeline=one) for number, one in enumerate(pipelines)]
        return submitted(children=tuple(Child(plan=plan, task=f"T.{plan.key}") for plan in plans))

    assert NothingExecuted().missing(batch("issue-plan", "issue-plan"), Evidence()) == ()
    assert NothingExecuted().missing(batch("issue-plan", "issue"), Evidence()) == ("carried out are I1",)
    assert NothingExecuted().missing(batch(), Evidence())


def test_every_guard_holds_with_its_own_sample() -> None:
    for name, kind in ISSUES.guards.items():
        guard = kind() if name == "nothing_executed" else kind(file=RESULT_FILE)  # type: ignore[call-arg]
        assert guard.describe()
        if name != "nothing_executed":
            assert guard.missing(child(), Evidence(files=guard.sample_files(), commits=("c1",))) == ()
