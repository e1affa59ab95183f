"""The files of a batch, from its task and the tasks of its issues."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from orchestrator.core.records.projection import Projected
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.progress import StageRecord, StageStatus
from orchestrator.core.task.task import Task, TaskStatus, Timing
from orchestrator.pipelines.families.issues.batch_state import read_state
from orchestrator.pipelines.families.issues.issue import IssueStatus
from orchestrator.pipelines.families.issues.projection import BatchProjection
from tests.fakes.tasks import TASK_ID, submitted
from tests.fakes.world import START
from tests.unit.pipelines.families.issues.test_batches_solution import RESULT, solution

PROJECTION = BatchProjection()
COMMIT = "c" * 40


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


def plan_of(key: str) -> str:
    """The solution of an issue."""
    return json.dumps(solution(id=f"SOL-{key}-1", issue_id=key))


def issue(key: str, **changes: Any) -> Task:
    """The task of an issue, before anything was done."""
    stages = {"PLAN": StageRecord(), "EXECUTE": StageRecord(), "CHECKS": StageRecord(), "HOME": StageRecord()}
    task = submitted(f"{TASK_ID}.{key}", parent=TASK_ID, stage="PLAN", stages=stages, status=TaskStatus.IN_PROGRESS)
    return replace(task, **changes)


def planning(key: str) -> Task:
    stages = issue(key).stages
    begun = StageRecord(status=StageStatus.IN_PROGRESS, visits=1)
    return issue(key, stages={**stages, "PLAN": begun}, updated_at=at(3))


def executing(key: str, visits: int = 1, **changes: Any) -> Task:
    stages = {
        **issue(key).stages,
        "PLAN": StageRecord(status=StageStatus.COMPLETED, visits=1, completed_at=at(5)),
        "EXECUTE": StageRecord(status=StageStatus.IN_PROGRESS, visits=visits, started_at=at(6)),
    }
    return issue(key, stage="EXECUTE", stages=stages, updated_at=at(6), **changes)


def completed(key: str) -> Task:
    task = executing(key, status=TaskStatus.COMPLETED, timing=Timing(created_at=START, completed_at=at(20)))
    done = StageRecord(status=StageStatus.COMPLETED, visits=1, started_at=at(6), completed_at=at(15))
    return replace(task, stages={**task.stages, "EXECUTE": done}, source=replace(task.source, head=COMMIT))


def failed(key: str) -> Task:
    timing = Timing(created_at=START, failed_at=at(20))
    return executing(key, status=TaskStatus.FAILED, timing=timing, block_reason="the API | is <gone>")


_STATUS = {TaskStatus.COMPLETED: ChildStatus.COMPLETED, TaskStatus.FAILED: ChildStatus.FAILED}


def batch(*tasks: Task, **changes: Any) -> Task:
    """The task of a batch with these issues."""
    children = []
    for task in tasks:
        key = task.id.removeprefix(f"{TASK_ID}.")
        status = _STATUS.get(task.status, ChildStatus.SUBMITTED)
        done = COMMIT if status is ChildStatus.COMPLETED else None
        children.append(Child(plan=ChildPlan(key=key, title=f"Issue {key}"), task=task.id, status=status, commit=done))
    stages = {"LIST": StageRecord(status=StageStatus.COMPLETED, completed_at=at(1)), "ISSUES": StageRecord()}
    whole = submitted(stage="ISSUES", stages=stages, status=TaskStatus.IN_PROGRESS, children=tuple(children))
    return replace(whole, timing=Timing(created_at=START, started_at=START), updated_at=at(1), **changes)


def files(task: Task, *tasks: Task, before: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files of a batch on top of those before, where every issue has a plan and a result."""
    facts = {}
    for one in tasks:
        key = one.id.removeprefix(f"{TASK_ID}.")
        left = {"solution.json": plan_of(key)} if one.stage != "PLAN" else {}
        left["result.json"] = json.dumps({**RESULT, "issue_id": key, "solution_id": f"SOL-{key}-1"})
        facts[one.id] = PROJECTION.facts(one, lambda name, left=left: left.get(name, ""))  # type: ignore[misc]
    kept = dict(before or {})
    projected = Projected(task=task, children=facts, artifact=lambda _: "", record=lambda name: kept.get(name, ""))
    return {**kept, **PROJECTION.files(projected)}


def test_the_state_says_how_far_every_issue_is() -> None:
    tasks = (completed("A"), failed("B"), executing("C"), planning("D"), issue("E"))
    found = files(batch(*tasks), *tasks)
    state = read_state(found["state.json"])
    assert [one.status.value for one in state.issues.values()] == [
        "completed", "failed", "executing", "planning", "registered",
    ]  # fmt: skip
    assert (state.status.value, state.phase.value) == ("running", "executing")
    assert state.context == replace(state.context, total_issues=5, completed_count=1, failed_count=1)
    assert [(one.item_id, one.issue_id, one.status.value) for one in state.queue] == [
        ("S-1", "A", "completed"),
        ("S-2", "B", "failed"),
        ("S-3", "C", "executing"),
    ]
    assert state.issues["A"].solution_id == "SOL-A-1"
    assert state.issues["D"].solution_id is None
    assert state.completed_actions[:2] == ("action-init", "action-list")
    assert "action-execute:A" in state.completed_actions
    assert [(one.action, one.message) for one in state.errors] == [("action-execute:B", "the API | is <gone>")]
    assert json.loads(found["queue.json"])[0]["item_id"] == "S-1"


def test_a_text_that_is_no_solution_is_never_planned() -> None:
    task = executing("A")
    facts = {task.id: PROJECTION.facts(task, lambda _: "I have planned it, all is well.")}
    whole = batch(replace(task, stage="PLAN"))
    state = read_state(
        PROJECTION.files(Projected(task=whole, children=facts, artifact=str, record=lambda _: ""))["state.json"]
    )
    assert state.issues["A"].solution_id is None


def test_phases_follow_the_batch() -> None:
    def phase(*tasks: Task, **changes: Any) -> str:
        return read_state(files(batch(*tasks, **changes), *tasks)["state.json"]).phase.value

    unborn = replace(batch(issue("A")), timing=Timing(created_at=START))
    planned_only = replace(batch(issue("A")).children[0], status=ChildStatus.PLANNED)
    assert read_state(files(unborn)["state.json"]).phase.value == "init"
    assert (
        read_state(files(replace(batch(issue("A")), children=(planned_only,)))["state.json"]).phase.value == "listing"
    )
    assert phase(planning("A")) == "planning"
    assert phase(executing("A"), planning("B")) == "executing"
    done = Timing(created_at=START, started_at=START, completed_at=at(30))
    ended = replace(batch(completed("A")), timing=done, status=TaskStatus.COMPLETED)
    state = read_state(files(ended, completed("A"))["state.json"])
    assert (state.status.value, state.phase.value, state.completed_actions[-1]) == (
        "completed", "complete", "action-complete",
    )  # fmt: skip


def test_the_history_grows_with_every_save_and_only_then() -> None:
    found = files(batch(issue("A")), issue("A"))
    assert len(json.loads(found["state-history.json"])) == 1
    later = replace(batch(issue("A")), updated_at=at(2))
    assert files(later, issue("A"), before=found) == found
    found = files(batch(planning("A")), planning("A"), before=found)
    found = files(batch(executing("A")), executing("A"), before=found)
    history = json.loads(found["state-history.json"])
    assert [entry["phase"] for entry in history] == ["planning", "planning", "executing"]
    assert set(history[-1]) == {"timestamp", "phase", "completed_actions", "issues_count"}


def test_a_crash_between_history_and_state_adds_nothing_twice() -> None:
    found = files(batch(executing("A")), executing("A"))
    torn = {name: text for name, text in found.items() if name != "state.json"}
    assert (
        files(batch(executing("A")), executing("A"), before=torn)["state-history.json"] == found["state-history.json"]
    )


def test_damaged_records_are_written_anew() -> None:
    damaged = {"state.json": "{", "state-history.json": '{"not": "a list"}'}
    found = files(batch(executing("A")), executing("A"), before=damaged)
    assert len(json.loads(found["state-history.json"])) == 1


def test_each_execution_has_a_snapshot_of_the_state_before_it() -> None:
    tasks = (completed("A"), executing("B"))
    found = files(batch(*tasks), *tasks)
    snapshot = json.loads(found["snapshots/snapshot-before-execute-2.json"])
    assert (snapshot["issue_id"], snapshot["solution_id"], snapshot["phase"]) == ("B", "SOL-B-1", "executing")
    before = read_state(json.dumps(snapshot["state"]))
    assert before.issues["B"].status is IssueStatus.PLANNED
    assert before.issues["A"].status is IssueStatus.COMPLETED
    assert [item.status.value for item in before.queue] == ["completed", "pending"]
    assert "snapshots/snapshot-before-execute-1.json" not in found
    again = files(batch(executing("A", visits=2)), executing("A", visits=2), before=found)
    assert "snapshots/snapshot-before-execute-1-2.json" in again
    later = replace(executing("B"), updated_at=at(9))
    kept = "snapshots/snapshot-before-execute-2.json"
    assert files(batch(completed("A"), later), completed("A"), later, before=found)[kept] == found[kept]


def test_plans_and_results_are_there_in_both_shapes() -> None:
    tasks = (completed("A"), failed("B"), planning("C"))
    found = files(batch(*tasks), *tasks)
    plans = json.loads(found["planning-results.json"])
    assert [(one["issue_id"], one["status"]) for one in plans["results"]] == [("A", "planned"), ("B", "planned")]
    assert plans["results"][0]["solution"] == json.loads(found["solutions/A-plan.json"])
    results = json.loads(found["execution-results.json"])
    assert (results["total"], results["completed"], results["failed"]) == (2, 1, 1)
    assert results["results"][0]["commit_hash"] == COMMIT
    assert results["results"][0]["files_modified"] == ["a.py", "b.py"]
    assert results["results"][1]["commit_hash"] is None
    assert json.loads(found["solutions/A-execution.json"])["status"] == "completed"
    assert "summary.json" not in found


def test_the_report_says_what_became_of_every_issue_and_what_is_left() -> None:
    tasks = (completed("A"), failed("B"))
    timing = Timing(created_at=START, started_at=START, completed_at=at(30))
    ended = replace(batch(*tasks), status=TaskStatus.COMPLETED, timing=timing)
    found = files(ended, *tasks)
    summary = json.loads(found["summary.json"])
    assert {name: summary[name] for name in ("total", "completed", "failed", "pending", "success_rate")} == {
        "total": 2, "completed": 1, "failed": 1, "pending": 0, "success_rate": 50.0,
    }  # fmt: skip
    assert (summary["duration_ms"], summary["quality"]) == (1_800_000, "fail")
    assert summary["outcome"] == "completed_with_issues"
    report = found["final-report.md"]
    assert "1 of 2 issues completed, 1 failed, 0 not done; 50.0 % succeeded (fail)." in report
    assert f"| A | Issue A | completed | SOL-A-1 | {COMMIT[:12]} |" in report
    assert "- **B** (execute): the API \\| is &lt;gone>" in report
    assert f"orchestrator submit --pipeline full --issues /data/tasks/{TASK_ID}/records" in report


def test_a_thousand_issues_are_shown_in_time() -> None:
    tasks = (*(completed(f"I{number}") for number in range(999)), executing("LAST"))
    found = files(batch(*tasks), *tasks)
    snapshot = json.loads(found["snapshots/snapshot-before-execute-1000.json"])
    assert list(snapshot["state"]["issues"]) == ["LAST"]
    assert len(found["snapshots/snapshot-before-execute-1000.json"]) < 100_000
    assert read_state(found["state.json"]).context.completed_count == 999
