"""Batches of issues: each becomes a task of its own, and a failed one stops no other."""

import json
from pathlib import Path
from typing import Any

from orchestrator.pipelines.families.issues.batch_state import read_state
from tests.acceptance.harness import DaemonHarness, Json
from tests.unit.pipelines.families.issues.test_batches_solution import RESULT, solution

BATCH = "issue-plan-execute"
TWO = [{"id": "A", "title": "The first"}, {"id": "B", "title": "The second"}]


def lines(*issues: Json) -> str:
    """JSON lines."""
    return "\n".join(map(json.dumps, issues))


def leave(name: str, text: str) -> Json:
    """An action that leaves a file in the outbox, where $KEY stands for the id of the issue."""
    quoted = text.replace("'", "'\\''")
    key = "key=${ORCHESTRATOR_TASK##*.}; key=${key%-[0-9]}"
    return {
        "run": f"{key}; printf '%s' '{quoted}' | sed \"s/@KEY@/$key/g\" > \"$ORCHESTRATOR_OUTBOX/{name}\"",
        "no_work": True,
    }


PLAN = leave("solution.json", json.dumps(solution(id="SOL-@KEY@-1", issue_id="@KEY@")))
DONE = leave("result.json", json.dumps({**RESULT, "issue_id": "@KEY@", "solution_id": "SOL-@KEY@-1"}))
GAVE_UP = leave(
    "result.json",
    json.dumps(
        {**RESULT, "issue_id": "@KEY@", "solution_id": "SOL-@KEY@-1", "status": "failed", "failure_reason": "no API"}
    ),
)
WORK = {"write": {"file": "$ORCHESTRATOR_TASK.txt", "text": "done\n"}, "commit": "A: Solve it", "no_work": True}


def batches(root: Path, execute: Any, plan: Any = PLAN, places: int = 1) -> DaemonHarness:
    """A daemon whose planner and executor do this."""
    return DaemonHarness(root, scenario={"PLAN": [plan], "EXECUTE": [execute]}, max_agents=places)


def records(harness: DaemonHarness, task: str) -> Path:
    return harness.folder(task) / "records"


def test_two_issues_come_home_with_one_commit_each_and_a_report(tmp_path: Path) -> None:
    with batches(tmp_path, [WORK, DONE]) as harness:
        parent = harness.submit(text="Two issues", pipeline=BATCH, files={"issues.jsonl": lines(*TWO)})
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["A: Solve it"] * 2
        state = read_state((records(harness, parent) / "state.json").read_text())
        assert (state.status.value, state.phase.value) == ("completed", "complete")
