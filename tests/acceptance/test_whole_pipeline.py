"""A ticket becomes an evaluated, committed change in the user's repository."""

import stat
from pathlib import Path

import orjson
import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from tests.acceptance.harness import DaemonHarness, line_count, listing
from tests.fakes.repositories import Trap, git


def test_a_ticket_becomes_a_branch_with_a_tested_commit_for_every_step(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        assert [stage.status.value for stage in done.stages.values()] == ["completed"] * 7
        assert len(done.steps) == 3
        assert all(len(step.commits) == 1 for step in done.steps)
        assert git(harness.repo, "rev-parse", done.branch) == done.head == done.steps[-1].commits[-1]
        assert len(harness.subjects(task)) == 3
        assert harness.checks_run.read_text().split() == [done.head], "the check ran once, in a checkout of the commit"
        assert (harness.folder(task) / "summary.md").read_text().count(done.branch) >= 1
        assert harness.stop() == 0
        assert harness.nothing_is_left()


def test_nothing_but_the_new_branch_appears_in_the_users_repository(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        trap = Trap(tmp_path / "trap")
        trap.set_in(harness.repo / ".git")
        (harness.repo / "uncommitted.txt").write_text("mine\n")
        before, refs = listing(harness.repo, (".git/objects",)), git_refs(harness.repo)
        done = harness.wait_for_end(harness.submit())
        after = listing(harness.repo, (".git/objects", *new_branch_files(done.branch)))
        assert after == before
        assert git_refs(harness.repo) == refs | {f"refs/heads/{done.branch}": done.head}
        assert trap.sprung == ""


def test_what_is_left_of_a_task_is_private_and_tells_the_whole_story(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        state, journal = harness.state(task), harness.journal(task)
    assert state["current_state"] == "COMPLETED"
    assert state["states"]["EVALUATION"]["results"]["unit_test"] == "PASS"
    assert state["states"]["IMPLEMENTATION"]["plan_progress"]["total_steps"] == 3
    assert [line["seq"] for line in journal] == list(range(1, state["seq"] + 1))
    assert all(line["event"] is not None and line["change"] for line in journal[1:])
    looked = [line["event"]["evidence"] for line in journal if line["trigger"] == "GateLooked"]
    assert all(evidence["fresh"] or evidence["commits"] or evidence["files"] for evidence in looked)
    open_to_others = [path for path in (tmp_path / "data" / "tasks").rglob("*") if is_open_to_others(path)]
    assert open_to_others == []


def test_a_mistake_that_the_check_finds_is_explained_mended_and_passes(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"plant_bug": True}]}) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        assert done.budgets["eval_cycles"].used == 1
        assert done.stages["ANALYSIS"].visits == 2
        (failure,) = [entry for entry in harness.state(task)["failure_log"] if entry["state"] == "EVALUATION"]
        assert failure["agent_analysis"]["confidence"] == "high"
        assert failure["resolution"]["transitioned_to"] == "ANALYSIS"
        judged = harness.checks_run.read_text().split()
        assert len(judged) == 2
        assert judged[0] != judged[1] == done.head


@pytest.mark.parametrize(("autonomy", "evaluations"), [(Autonomy.INTERACTIVE, 3), (Autonomy.AUTO, 4)])
def test_a_check_that_always_fails_blocks_the_task_after_the_third_evaluation_or_one_last_pass(
    tmp_path: Path, autonomy: Autonomy, evaluations: int
) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit(checks={"unit_test": f"echo no >> '{tmp_path}/ran'; exit 3"}, autonomy=autonomy)
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "exit code 3" in (blocked.block_reason or "")
        assert line_count(tmp_path / "ran") == evaluations
        assert harness.state(task)["current_state"] == "BLOCKED"
        assert git(harness.repo, "branch", "--list", blocked.branch) == "", "what did not pass is not delivered"
        assert harness.nothing_is_left()


def test_no_work_is_not_taken_for_work(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [{"no_work": True}]}) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        told = harness.journal(task, "GateLooked")[1]
        assert "without any work" in orjson.dumps(told["change"]).decode()
        assert done.agent.turn > 0


def git_refs(repo: Path) -> dict[str, str | None]:
    """Every ref of a repository and HEAD itself."""
    rows = git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return {"HEAD": git(repo, "symbolic-ref", "HEAD"), **{row.split(" ")[0]: row.split(" ")[1] for row in rows}}


def new_branch_files(branch: str) -> tuple[str, ...]:
    """Where git keeps a branch and its reflog."""
    top = branch.partition("/")[0]
    return (f".git/refs/heads/{top}", f".git/logs/refs/heads/{top}")


def is_open_to_others(path: Path) -> bool:
    """Whether anybody but the owner may do anything with it."""
    mode = path.lstat()
    return not stat.S_ISLNK(mode.st_mode) and bool(mode.st_mode & 0o077)
