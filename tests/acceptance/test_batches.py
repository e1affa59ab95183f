"""Batches of issues: each becomes a task of its own, and a failed one stops no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json
from tests.documents import ROOT
from tests.fakes.repositories import git
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
SECOND = {"file": "$ORCHESTRATOR_TASK-2.txt", "text": "done\n"}
WORK = {"write": {"file": "$ORCHESTRATOR_TASK.txt", "text": "done\n"}, "commit": "A: Solve it", "no_work": True}


def batches(root: Path, execute: Any, plan: Any = PLAN, places: int = 1) -> DaemonHarness:
    """A daemon whose planner and executor do this."""
    return DaemonHarness(root, scenario={"PLAN": [plan], "EXECUTE": [execute]}, max_agents=places)


def shows(harness: DaemonHarness, task: str, name: str) -> Any:
    """A file that shows a batch."""
    text = (harness.folder(task) / "records" / name).read_text()
    return json.loads(text) if name.endswith(".json") else text


def reported(harness: DaemonHarness, task: str, *, ended: bool = True) -> Json:
    """The state of a batch that has ended, when its files show that."""
    report = harness.folder(task) / "records/final-report.md"
    harness.wait_for("the report of the batch", report.exists)
    if ended:
        harness.wait_for("the end of the writing", lambda: not (harness.folder(task) / "records-behind").exists())
    return dict(shows(harness, task, "state.json"))


def outcomes(state: Json) -> dict[str, str]:
    """How each issue stands."""
    return {name: one["status"] for name, one in state["issues"].items()}


def only_if(key: str, then: Json, otherwise: Json) -> Json:
    """What one issue does, and what the others do."""
    yes, no = then["run"], otherwise["run"]
    return {"run": f"case $ORCHESTRATOR_TASK in *.{key}*) {yes};; *) {no};; esac", "no_work": True}


def test_two_issues_come_home_with_one_commit_each_and_a_report(tmp_path: Path) -> None:
    with batches(tmp_path, [WORK, {**WORK, "commit": "B: Solve it whole", "write": SECOND}, DONE]) as harness:
        parent = harness.submit(text="Two issues", pipeline=BATCH, files={"issues.jsonl": lines(*TWO)})
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["B: Solve it whole"] * 2
        state = reported(harness, parent)
        assert (state["status"], state["phase"]) == ("completed", "complete")
        assert outcomes(state) == {"A": "completed", "B": "completed"}
        assert [item["status"] for item in state["queue"]] == ["completed"] * 2
        assert shows(harness, parent, "summary.json")["success_rate"] == 100.0
        assert "2 of 2 issues completed" in shows(harness, parent, "final-report.md")
        assert [one["status"] for one in shows(harness, parent, "planning-results.json")["results"]] == ["planned"] * 2
        phases = [entry["phase"] for entry in shows(harness, parent, "state-history.json")]
        assert phases[-1] == "complete"
        assert phases == sorted(phases, key=["init", "listing", "planning", "executing", "complete"].index)
        for number, key in enumerate("AB", 1):
            snapshot = harness.folder(parent) / f"records/snapshots/snapshot-before-execute-{number}.json"
            begun = (harness.folder(f"{parent}.{key}") / "agents/2/spec.json").stat().st_mtime_ns
            assert snapshot.stat().st_mtime_ns < begun
            assert json.loads(snapshot.read_text())["state"]["issues"][key]["status"] == "planned"


def test_a_failed_issue_stops_no_other_and_a_later_batch_does_only_what_is_left(tmp_path: Path) -> None:
    with batches(tmp_path, [WORK, only_if("A", GAVE_UP, DONE)]) as harness:
        parent = harness.submit(text="Two issues", pipeline=BATCH, files={"issues.jsonl": lines(*TWO)})
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["A: Solve it"]
        state = reported(harness, parent)
        assert outcomes(state) == {"A": "failed", "B": "completed"}
        assert "no API" in state["issues"]["A"]["error"]
        assert harness.state(f"{parent}.A")["status"] == "failed"
        assert shows(harness, parent, "summary.json")["outcome"] == "completed_with_issues"
        folder = str(harness.folder(parent) / "records")
        told = harness.cli("submit", "--issues", folder, "--repo", str(harness.repo), "--json")
        assert told.returncode == 0, told.stderr
        again = json.loads(told.stdout)["id"]
        harness.wait_until(again, lambda now: now.status in (TaskStatus.BLOCKED, TaskStatus.COMPLETED))
        assert [child["plan"]["key"] for child in harness.state(again)["children"]] == ["A"]
        assert harness.state(f"{again}.A")["pipeline_variant"] == "issue-execute"
        ticket = json.loads((harness.folder(f"{again}.A") / "ticket.json").read_text())
        assert "no API" in ticket["description"]


def test_a_batch_without_any_success_is_blocked_and_a_retry_makes_its_issues_again(tmp_path: Path) -> None:
    with batches(tmp_path, [WORK, only_if("A-2", DONE, GAVE_UP)]) as harness:
        parent = harness.submit(text="One issue", pipeline=BATCH, files={"issues.jsonl": lines(TWO[0])})
        harness.wait_for_end(parent, TaskStatus.BLOCKED)
        state = reported(harness, parent, ended=False)
        assert (outcomes(state), state["status"]) == ({"A": "failed"}, "running")
        assert {"action-execute:A", "ISSUES"} == {one["action"] for one in state["errors"]}
        harness.client.request(parent, "retry")
        harness.wait_for_end(parent)
        assert outcomes(reported(harness, parent)) == {"A": "completed"}
        assert harness.subjects(parent) == ["A: Solve it"]


def test_a_plan_that_cannot_be_read_is_never_planned_and_never_carried_out(tmp_path: Path) -> None:
    talk = leave("solution.json", "I have planned @KEY@. All is well.")
    with batches(tmp_path, [WORK, DONE], plan=only_if("A", talk, PLAN)) as harness:
        parent = harness.submit(text="Two issues", pipeline=BATCH, files={"issues.jsonl": lines(*TWO)})
        harness.wait_for_end(parent)
        state = reported(harness, parent)
        assert outcomes(state) == {"A": "failed", "B": "completed"}
        assert state["issues"]["A"]["solution_id"] is None
        assert "no JSON" in state["issues"]["A"]["error"]
        assert harness.state(f"{parent}.A")["states"]["EXECUTE"]["status"] == "pending"


def test_what_is_planned_only_is_carried_out_by_a_later_batch(tmp_path: Path) -> None:
    with batches(tmp_path, [WORK, DONE]) as harness:
        options = ("--pipeline", BATCH, "--skip-execute", "--repo", str(harness.repo), "--json")
        told = harness.cli("submit", *options, "--", "- First\n- Second\n")
        assert told.returncode == 0, told.stderr
        planned = json.loads(told.stdout)["id"]
        harness.wait_for_end(planned)
        assert outcomes(reported(harness, planned)) == {"ISS-001": "planned", "ISS-002": "planned"}
        assert git(harness.repo, "branch", "--list", "--format=%(refname:short)").split() == ["main"]
        folder = str(harness.folder(planned) / "records/state.json")
        told = harness.cli("submit", "--issues", folder, "--skip-plan", "--repo", str(harness.repo), "--json")
        assert told.returncode == 0, told.stderr
        done = json.loads(told.stdout)["id"]
        harness.wait_for_end(done)
        assert outcomes(reported(harness, done)) == {"ISS-001": "completed", "ISS-002": "completed"}
        assert {harness.state(f"{done}.{key}")["agent"]["attempt"] for key in ("ISS-001", "ISS-002")} == {1}


def test_a_killed_daemon_continues_a_batch_and_does_nothing_twice(tmp_path: Path) -> None:
    go = tmp_path / "go"
    three = [*TWO, {"id": "C", "title": "The third"}]
    hold = {"run": f"case $ORCHESTRATOR_TASK in *.B) until [ -e '{go}' ]; do sleep 0.1; done;; esac", "no_work": True}
    with batches(tmp_path, [hold, WORK, DONE]) as harness:
        parent = harness.submit(text="Three issues", pipeline=BATCH, files={"issues.jsonl": lines(*three)})
        harness.wait_for("the second issue", (harness.folder(f"{parent}.B") / "agents/2").exists)
        harness.wait_until_it_works(f"{parent}.B", "EXECUTE")
        harness.kill()
        (harness.folder(parent) / "records/state.json").unlink()
        harness.start()
        harness.wait_for("the state, written anew", (harness.folder(parent) / "records/state.json").exists)
        go.touch()
        harness.wait_for_end(parent)
        assert outcomes(reported(harness, parent)) == dict.fromkeys("ABC", "completed")
        assert harness.subjects(parent) == ["A: Solve it"] * 3
        assert harness.state(f"{parent}.A")["agent"]["attempt"] == 2


def test_without_squash_the_commits_of_the_tasks_come_home(tmp_path: Path) -> None:
    own = tmp_path / "pipelines"
    own.mkdir()
    text = (ROOT / "config/pipelines/issue.toml").read_text().replace("squash = true", "squash = false")
    (own / "issue.toml").write_text(text)
    second = {**WORK, "commit": "A: And its test", "write": SECOND}
    scenario = {"PLAN": [PLAN], "EXECUTE": [[WORK, second, DONE]]}
    with DaemonHarness(tmp_path, scenario=scenario, folders={"pipelines": [str(own)]}) as harness:
        parent = harness.submit(text="- One issue", pipeline=BATCH)
        harness.wait_for_end(parent)
        assert harness.subjects(parent) == ["A: Solve it", "A: And its test"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--issues", "{folder}/none.jsonl"), "cannot be read"),
        (("--issues", "{folder}/bad.jsonl"), "line 2: it is no JSON"),
        (("--issues", 'acme/app label:"bug'), "No closing quotation"),
        (("--issues", "{folder}/good.jsonl", "--skip-plan"), "A: it has no solution"),
        (("--issues", "{folder}/good.jsonl", "--pipeline", "full"), "takes no file 'issues.jsonl'"),
        (("--issues", "{folder}"), "state.json cannot be read"),
    ],
)
def test_a_batch_that_cannot_begin_is_refused_with_the_reason(
    tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "good.jsonl").write_text(lines({"id": "A", "title": "One"}))
    (tmp_path / "bad.jsonl").write_text(lines({"id": "A", "title": "One"}) + "\nnot json")
    with batches(tmp_path, [WORK, DONE]) as harness:
        told = harness.cli("submit", *(one.format(folder=tmp_path) for one in options), "--repo", str(harness.repo))
        assert told.returncode != 0
        assert reason in " ".join(told.stderr.split())
        assert list((harness.data / "tasks").iterdir()) == []
