"""state.json: the document in the original format with its names, and the way back from it."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.checks import Check, CheckKind, CheckResult, Evaluation, Verdict
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Schedule, Task, TaskStatus
from orchestrator.core.task.ticket import SensitiveCheck
from orchestrator.formats.codec import Json
from orchestrator.storage.state_document import from_document, to_document
from tests.fakes.world import START
from tests.unit.playbook import EXPLAINED, a_task, at, at_work, evaluating, full, with_budget

Tree = dict[str, "Tree | None"]

STAGE: Tree = dict.fromkeys(("status", "started_at", "completed_at", "artifacts"))
SEED: Tree = {
    "ticket_id": None,
    "created_at": None,
    "workspace_dir": None,
    "ticket_type": None,
    "pipeline_variant": None,
    "requirement_source": None,
    "current_state": None,
    "current_agent": None,
    "states": {
        "TICKET_INTAKE": STAGE | {"sensitive_check": None, "mcp_preflight": None},
        "ANALYSIS": STAGE,
        "PLANNING": STAGE,
        "DESIGN": STAGE | {"revision": None},
        "IMPLEMENTATION": STAGE | {"branch": None, "plan_progress": None, "commits": None},
        "EVALUATION": STAGE
        | {"results": dict.fromkeys(("unit_test", "lint", "security", "chainbench")), "report_path": None},
        "COMPLETION": {"status": None, "pr_url": None, "merged_at": None, "merge_commit": None},
    },
    "failure_log": None,
    "failure_summary": dict.fromkeys(("total_failures", "by_state", "by_type", "recurring_patterns")),
    "config": {
        **dict.fromkeys(("max_design_revisions", "max_eval_cycles", "impl_model", "planning_model")),
        "autonomy": dict.fromkeys(("mode", "on_blocked", "auto_merge")),
    },
}
"""The keys of the document that init_state writes in the original format."""

SEED_FAILURE: Tree = {
    **dict.fromkeys(("id", "occurred_at", "state", "agent", "step", "expected_outcome")),
    "attempted_action": dict.fromkeys(
        ("description", "command", "related_plan_step", "related_design", "modified_files")
    ),
    "actual_outcome": dict.fromkeys(("type", "summary", "details", "exit_code", "log_file")),
    "agent_analysis": dict.fromkeys(("root_cause_hypothesis", "confidence", "suggested_fix")),
    "resolution": dict.fromkeys(("action", "transitioned_to", "retry_count")),
}
"""The keys of an entry of its failure log."""

SEED_STEP: Tree = dict.fromkeys(
    ("step_id", "description", "status", "commits", "started_at", "completed_at", "last_checkpoint")
)


def lacking(wanted: Tree, found: Json, path: str = "") -> list[str]:
    """Return the paths of the required keys that are missing."""
    if not isinstance(found, dict):
        return [f"{path} is no object"]
    return [f"{path}/{key}" for key in wanted if key not in found] + [
        lack
        for key, inner in wanted.items()
        if inner is not None and key in found
        for lack in lacking(inner, found[key], f"{path}/{key}")
    ]


def at_key(document: Json, *keys: str | int) -> Json:
    """Return the value at a path of a document."""
    for key in keys:
        match document, key:
            case dict() as inner, str():
                document = inner[key]
            case list() as items, int():
                document = items[key]
            case _:
                raise KeyError(key)
    return document


def a_failure(number: int) -> Failure:
    return Failure(
        id="", occurred_at=START, state="EVALUATION", agent="evaluator", step="lint", attempted="evaluation 1 of c2",
        command="ruff check", expected="lint passes", type="check_failure", summary=f"unused import in a/b.py:{number}",
        details="…", exit_code=1, log_file="logs/1-lint/out.log", analysis=EXPLAINED, action="retry_cycle",
        transitioned_to="ANALYSIS", retry_count=number,
    )  # fmt: skip


def much_lived() -> Task:
    """Return a task with a value in every field."""
    task = evaluating(Verdict.PASS)
    for number in range(3):
        task = replace(task, failures=task.failures.with_failure(a_failure(number)))
    ticket = replace(task.ticket, sensitive_check=SensitiveCheck(result="REDACTED", redacted_count=2, scanned_at=START))
    lint = CheckResult(verdict=Verdict.WARN, seconds=1.5, log="logs/1-lint/out.log")
    results = {**task.evaluation.results, "lint": lint}
    return replace(
        task,
        ticket=ticket,
        schedule=Schedule(after=("LOCAL-1",), start_at=START),
        retry_at=START + timedelta(milliseconds=1),
        evaluation=replace(task.evaluation, results=results, report_path="report.md"),
        publication=Publication(pr_url="https://example.org/1", merged_at=START, merge_commit="m" * 40),
        feedback=("a", "b"),
        block_reason="no",
        timing=replace(task.timing, failed_at=START),
    )


def test_every_key_of_the_original_format_is_present_under_its_name() -> None:
    for task in (a_task_begun(), much_lived()):
        assert lacking(SEED, to_document(task)) == []


def a_task_begun() -> Task:
    return at("TICKET_INTAKE", NextAction.WORKSPACE)


def test_entries_of_the_failure_log_and_steps_have_the_original_keys() -> None:
    document = to_document(much_lived())
    assert lacking(SEED_FAILURE, at_key(document, "failure_log", 0)) == []
    progress = at_key(document, "states", "IMPLEMENTATION", "plan_progress")
    assert at_key(progress, "total_steps") == 2
    assert lacking(SEED_STEP, at_key(progress, "steps", 0)) == []
    assert at_key(document, "states", "IMPLEMENTATION", "commits") == ["c1", "c2"]


def test_check_results_are_stored_under_the_original_names() -> None:
    results = at_key(to_document(much_lived()), "states", "EVALUATION", "results")
    assert results == {"unit_test": "PASS", "lint": "WARN", "security": None, "chainbench": None}


def test_recurring_patterns_are_counted() -> None:
    patterns = at_key(to_document(much_lived()), "failure_summary", "recurring_patterns")
    ids: list[Json] = ["fail-001", "fail-002", "fail-003"]
    assert patterns == [{"pattern": "unused_import:a/b.py", "occurrences": 3, "failure_ids": ids}]


def test_a_document_is_plain_json() -> None:
    document = to_document(much_lived())
    assert json.loads(json.dumps(document)) == document


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (TaskStatus.PENDING, "EVALUATION"),
        (TaskStatus.IN_PROGRESS, "EVALUATION"),
        (TaskStatus.BLOCKED, "BLOCKED"),
        (TaskStatus.COMPLETED, "COMPLETED"),
        (TaskStatus.CANCELLED, "EVALUATION"),
    ],
)
def test_blocked_and_completed_are_shown_as_states_and_read_back_as_statuses(status: TaskStatus, shown: str) -> None:
    task = replace(evaluating(), status=status)
    document = to_document(task)
    assert (document["current_state"], document["stage"]) == (shown, "EVALUATION")
    assert from_document(document) == task


@pytest.mark.parametrize("stage", list(full().stages))
def test_a_task_survives_the_round_trip_through_its_document(stage: str) -> None:
    task = at(stage)
    assert from_document(to_document(task)) == task
    assert from_document(to_document(much_lived())) == much_lived()


def test_the_revision_of_a_design_is_counted_against_its_budget() -> None:
    assert at_key(to_document(a_task_begun()), "states", "DESIGN", "revision") == 0
    thrice = with_budget(at("DESIGN"), "design_revisions", 2)
    assert at_key(to_document(thrice), "states", "DESIGN", "revision") == 2


def test_facts_are_kept_in_pipelines_without_the_original_stages() -> None:
    task = much_lived()
    task = replace(task, stage="BUILD", stages={"BUILD": task.stages["EVALUATION"]})
    assert from_document(to_document(task)) == task


def test_limits_are_shown_as_the_original_configuration() -> None:
    config = at_key(to_document(at_work()), "config")
    assert (at_key(config, "max_eval_cycles"), at_key(config, "max_design_revisions")) == (3, 3)


OPTIONAL = (
    *("seq", "block_reason", "worktree", "head", "priority", "after", "start_at", "started_at", "completed_at"),
    *(
        "failed_at",
        "status",
        "stage",
        "budgets",
        "next_action",
        "retry_at",
        "feedback",
        "run",
        "agent",
        "progress",
        "waiting",
    ),
    *("schema_version", "current_phase", "total_phases", "current_agent"),
)


def test_a_document_without_later_additions_can_be_read() -> None:
    old = {key: value for key, value in to_document(a_task_begun()).items() if key not in OPTIONAL}
    task = from_document(old)
    assert (task.status, task.next_action, task.seq, task.budgets) == (TaskStatus.PENDING, NextAction.ADMISSION, 0, {})
    assert (task.id, task.evaluation.checks, task.ticket) == (a_task().id, a_task().evaluation.checks, a_task().ticket)


def test_additions_of_a_later_version_are_ignored() -> None:
    task = at_work()
    assert from_document(to_document(task) | {"mood": "good"}) == task


@pytest.mark.parametrize(
    ("key", "value"),
    [("states", []), ("agent", "me"), ("status", "asleep"), ("created_at", "today"), ("seq", "1"), ("checks", 3)],
)
def test_a_document_that_does_not_describe_a_task_is_refused(key: str, value: Json) -> None:
    with pytest.raises((TypeError, ValueError)):
        from_document(to_document(at_work()) | {key: value})


def test_a_document_without_a_task_is_refused() -> None:
    with pytest.raises(KeyError):
        from_document({})


def test_the_integration_test_of_a_machine_is_shown_under_its_original_name_too() -> None:
    check = Check(name="integration", command="up", kind=CheckKind.INTEGRATION)
    passed = CheckResult(verdict=Verdict.PASS, reason="exit code 0")
    task = replace(a_task(), evaluation=Evaluation(checks=(check,), results={"integration": passed}))
    task, _ = machine.begin(full(), TaskSubmitted(at=START, task=task))
    document = to_document(task)
    states = cast(dict[str, Any], document["states"])
    results = states["EVALUATION"]["results"]
    assert (results["integration"], results["chainbench"], results["lint"]) == ("PASS", "PASS", None)
    assert from_document(document).evaluation.results == {"integration": passed}
