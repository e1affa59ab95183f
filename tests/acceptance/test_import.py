"""`import` takes over a live workspace of the original system: a task continues it where it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import RequestRefused
from orchestrator.server.schemas.task_input import ImportBody, TaskFilter
from tests.acceptance.harness import FILES, DaemonHarness
from tests.fakes.repositories import commit, git

PLAN = "# Plan\n\n## Step 1: Implement slugify in textkit\n\nSo.\n\n## Step 2: Test slugify\n\nSo.\n"
SLUGIFY = """

def slugify(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
"""
ANALYSIS = "# Analysis\n\nIt needs a function. The password is hunter2hunter2, password=hunter2hunter2.\n" + "x" * 300


def workspace(repo: Path, state: str = "IMPLEMENTATION", **changes: Any) -> Path:
    """Leave a workspace as the original system does: its first step is committed on a branch of its own."""
    (repo / ".git/info/exclude").write_text(".coding-agent/\n")
    git(repo, "checkout", "--quiet", "-b", "feature/STABLE-7")
    done = commit(repo, {"textkit/__init__.py": FILES["textkit/__init__.py"] + SLUGIFY}, "STABLE-7: Implement slugify")
    git(repo, "checkout", "--quiet", "main")
    folder = repo / ".coding-agent/tickets/STABLE-7_20260528_000000"
    (folder / "logs").mkdir(parents=True)
    files = {
        "ticket.json": json.dumps({"ticket_id": "STABLE-7", "summary": "Add slugify(text)", "description": "Please."}),
        "analysis.md": ANALYSIS,
        "related-code.json": json.dumps({"ckv": [{"symbol": "shout"}]}),
        "plan.md": PLAN,
        "design-v1.md": "As it is.\n",
        "notes.md": "mine\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    steps = [
        {"step_id": 1, "description": "Implement slugify in textkit", "status": "completed", "commits": [done[:7]]},
        {"step_id": 2, "description": "Test slugify", "status": "in_progress", "commits": [], "last_checkpoint": None},
    ]
    earlier = {"status": "completed", "started_at": "2026-05-28T00:00:00Z", "completed_at": "2026-05-28T00:10:00Z"}
    failure = {
        "id": "fail-001", "occurred_at": "2026-05-28T01:00:00Z", "state": "EVALUATION", "agent": "evaluator",
        "step": "unit_test", "attempted_action": {"description": "tests", "command": "make test"},
        "actual_outcome": {"type": "test_failure", "summary": "panic: nil pointer", "exit_code": 2},
        "resolution": {"action": "retry_cycle", "transitioned_to": "ANALYSIS", "retry_count": 1},
    }  # fmt: skip
    document = {
        "ticket_id": "STABLE-7", "created_at": "2026-05-28T00:00:00Z", "workspace_dir": str(folder),
        "ticket_type": "feature", "pipeline_variant": "full", "requirement_source": "jira",
        "current_state": state, "current_agent": None,
        "states": {
            "TICKET_INTAKE": {**earlier, "artifacts": ["ticket.json"], "sensitive_check": {"result": "CLEAN"}},
            "ANALYSIS": {**earlier, "artifacts": ["analysis.md", "related-code.json"]},
            "PLANNING": {**earlier, "artifacts": ["plan.md"]},
            "DESIGN": {**earlier, "artifacts": ["design-v1.md"], "revision": 1},
            "IMPLEMENTATION": {
                "status": "in_progress", "started_at": "2026-05-28T00:20:00Z", "branch": "feature/STABLE-7",
                "commits": [done[:7]],
                "plan_progress": {"total_steps": 2, "steps": steps},
            },
            "EVALUATION": {"status": "pending", "results": {"unit_test": None}, "report_path": None},
            "COMPLETION": {"status": "pending", "pr_url": None, "merged_at": None, "merge_commit": None},
        },
        "failure_log": [failure],
        "failure_summary": {
            "total_failures": 1, "by_state": {"EVALUATION": 1}, "by_type": {"test_failure": 1},
            "recurring_patterns": [],
        },
        "config": {
            "max_design_revisions": 3, "max_eval_cycles": 5,
            "autonomy": {"mode": "auto", "on_blocked": "halt", "auto_merge": False},
        },
    }  # fmt: skip
    (folder / "state.json").write_text(json.dumps({**document, **changes}))
    return folder


def body(folder: Path) -> ImportBody:
    return ImportBody(folder=folder)


def test_a_live_workspace_is_continued_at_its_open_step_to_the_end(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = workspace(harness.repo)
        before, main = (folder / "state.json").read_bytes(), git(harness.repo, "rev-parse", "main")
        theirs = git(harness.repo, "rev-parse", "feature/STABLE-7")
        task = harness.client.take_over(body(folder), "key-1")
        assert (task.ticket.key, task.stage, task.base_branch) == ("STABLE-7", "IMPLEMENTATION", "main")
        done = harness.wait_for_end(task.id)
        assert done.status is TaskStatus.COMPLETED, done.block_reason
        assert (done.steps[0].commits, len(done.steps[1].commits)) == ((theirs,), 1)
        assert (done.base_commit, done.stages["ANALYSIS"].visits) == (main, 1)
        assert git(harness.repo, "rev-parse", "feature/STABLE-7") == theirs
        assert done.branch != "feature/STABLE-7"
        assert git(harness.repo, "merge-base", theirs, done.branch) == theirs
        assert (done.failures.total, done.budgets["eval_cycles"].limit) == (1, 5)
        taken = harness.folder(task.id)
        assert "[REDACTED:password_assignment]" in (taken / "analysis.md").read_text()
        assert (taken / "plan.md").read_text() == PLAN
        assert not (taken / "notes.md").exists()
        assert (folder / "state.json").read_bytes() == before


def test_a_workspace_is_taken_over_once(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"think_ms": 60_000}]}) as harness:
        folder = workspace(harness.repo, ticket_id="LOCAL-20260528_000000", requirement_source="local")
        task = harness.client.take_over(body(folder), "key-1")
        with pytest.raises(RequestRefused, match=f"was taken over already: {task.id}"):
            harness.client.take_over(body(folder), "key-2")


PROPOSED = {"status": "in_progress", "pr_url": "https://x.test/pull/1"}
GONE = {"status": "in_progress", "branch": "gone"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"current_state": "COMPLETED"}, "is completed; nothing is left"),
        ({"states": {"COMPLETION": PROPOSED}}, "proposed its change"),
        ({"pipeline_variant": "mine"}, "there is no pipeline 'mine'"),
        ({"states": {"IMPLEMENTATION": GONE}}, "no branch, tag or commit 'gone'"),
    ],
)
def test_a_workspace_that_cannot_be_continued_is_refused_with_the_reason(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = workspace(harness.repo, **changes)
        with pytest.raises(RequestRefused, match=says):
            harness.client.take_over(body(folder), "key-1")
        assert harness.client.tasks(TaskFilter(all=True)).tasks == ()


def test_uncommitted_work_is_not_left_behind(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = workspace(harness.repo)
        (harness.repo / "half-done.txt").write_text("mine")
        with pytest.raises(RequestRefused, match=r"which a task would not have: half-done\.txt"):
            harness.client.take_over(body(folder), "key-1")


def test_a_blocked_workspace_gets_its_tries_anew(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"think_ms": 60_000}]}) as harness:
        folder = workspace(harness.repo, "BLOCKED")
        state = json.loads((folder / "state.json").read_text())
        state["states"]["DESIGN"]["revision"] = 3
        (folder / "state.json").write_text(json.dumps(state))
        task = harness.client.take_over(body(folder), "key-1")
        assert (task.stage, task.budgets["design_revisions"].used) == ("IMPLEMENTATION", 0)
