"""Checkpoints as people use them: a real daemon, real agents, and the command line."""

import json
import shutil
from pathlib import Path

from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness
from tests.fakes.repositories import git

HALF_DONE = {"write": {"file": "half-done.txt", "text": "not lost\n"}}
FOR_EVER = {"think_ms": 600_000}


def checkpoints(harness: DaemonHarness, task: str) -> list[dict[str, object]]:
    """What `checkpoints list --json` says."""
    done = harness.cli("checkpoints", "list", task, "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout)["checkpoints"])


def reasons(harness: DaemonHarness, task: str) -> list[Reason]:
    return [one.reason for one in harness.client.checkpoints(task).checkpoints]


def test_work_of_a_frozen_agent_is_had_back_as_a_branch_and_disturbs_nobody(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [[HALF_DONE, FOR_EVER]]}) as harness:
        task = harness.submit()
        worktree = Path(harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        harness.wait_for("the checkpoint of the pause", lambda: Reason.USER in reasons(harness, task))
        newest = checkpoints(harness, task)[0]
        assert newest["reason"] == "user"
        note = harness.state(task)["states"]["IMPLEMENTATION"]["plan_progress"]["steps"][0]["last_checkpoint"]
        assert (note["reason"], note["uncommitted_files"]) == ("manual_stop", ["half-done.txt"])
        assert "PATH" in str(newest["environment"])
        number = str(newest["number"])
        assert "half-done" not in harness.cli("checkpoints", "list", task).stdout
        assert "1 file, +1 -0" in harness.cli("checkpoints", "list", task).stdout
        assert "implementer" in harness.cli("checkpoints", "show", task, number).stdout
        assert "pinned" in harness.cli("checkpoints", "pin", task, number).stdout
        refused = harness.cli("checkpoints", "restore", task, number, "--in-place")
        assert (refused.returncode, refused.stdout) == (5, "")
        assert "--in-place" in refused.stderr
        done = harness.cli("checkpoints", "restore", task, number)
        assert done.returncode == 0, done.stderr
        branch = f"orchestrator/{task}/checkpoint-{number}"
        assert branch in done.stdout
        assert git(harness.repo, "show", f"{branch}:half-done.txt") == "not lost"
        missing = harness.cli("checkpoints", "show", task, "99999")
        assert (missing.returncode, missing.stdout) == (4, "")
        assert harness.cli("checkpoints", "list", "NOBODY-1").returncode == 4
        assert harness.cli("checkpoints", "restore", task, number, "--in-place", "--branch", "x").returncode == 2


def test_the_work_of_a_cancelled_task_survives_its_archival(tmp_path: Path) -> None:
    stubborn = [HALF_DONE, {"ignore_term": True}, FOR_EVER]
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [[], stubborn]}) as harness:
        task = harness.submit()
        worktree = Path(harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        assert harness.cli("cancel", task).returncode == 0
        archived = harness.cli("archive", task)
        assert archived.returncode == 0, archived.stderr
        assert not harness.survivors(), "it is archived only when its processes have ended"
        assert not worktree.exists()
        newest = checkpoints(harness, task)[0]
        assert (newest["reason"], newest["pinned"]) == ("user", True)
        done = harness.cli("checkpoints", "restore", task, str(newest["number"]))
        assert done.returncode == 0, done.stderr
        branch = f"orchestrator/{task}/checkpoint-{newest['number']}"
        assert git(harness.repo, "show", f"{branch}:half-done.txt") == "not lost"
        assert "Implement slugify in textkit" in git(harness.repo, "log", "--format=%s", branch)


def test_a_worktree_that_somebody_removed_is_made_anew_from_the_newest_checkpoint(tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    scenario = {"IMPLEMENTATION": [[], [HALF_DONE, FOR_EVER], [{"wait_for": go}]]}
    with DaemonHarness(tmp_path, scenario=scenario) as harness:
        task = harness.submit()
        worktree = Path(harness.wait_until(task, lambda now: now.stage == "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)
        harness.client.request(task, "pause")
        harness.wait_for("the checkpoint of the pause", lambda: Reason.USER in reasons(harness, task))
        shutil.rmtree(worktree)
        harness.end_run(task)
        harness.client.request(task, "resume")
        harness.wait_for("the work", (worktree / "half-done.txt").exists)
        assert "restored from checkpoint" in harness.cli("events", task).stdout
        Path(go).touch()
        harness.wait_for_end(task)
        assert len(harness.subjects(task)) == 3


def test_the_worktree_of_a_blocked_task_goes_back_and_forth(tmp_path: Path) -> None:
    lost = [HALF_DONE, {"exit": 1}]
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [lost, lost, lost, lost]}, retry_delay=0.05) as harness:
        task = harness.submit()
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        worktree = Path(blocked.worktree or "")
        harness.wait_for("the checkpoint of the failure", lambda: Reason.ERROR in reasons(harness, task))
        then = harness.client.checkpoints(task).checkpoints[0].number
        (worktree / "half-done.txt").write_text("by hand\n")
        (worktree / "more.txt").write_text("by hand too\n")
        done = harness.cli("checkpoints", "restore", task, str(then), "--in-place", "--json")
        assert done.returncode == 0, done.stderr
        assert (worktree / "half-done.txt").read_text() == "not lost\n"
        assert not (worktree / "more.txt").exists()
        before = json.loads(done.stdout)["keptAs"]
        assert next(one for one in checkpoints(harness, task) if one["number"] == before)["pinned"]
        assert harness.cli("checkpoints", "restore", task, str(before), "--in-place").returncode == 0
        assert (worktree / "more.txt").read_text() == "by hand too\n"


def test_stages_and_the_end_of_the_daemon_leave_checkpoints_that_outlive_the_task(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"DESIGN": [{"wait_for": str(tmp_path / "go")}]}) as harness:
        task = harness.submit()
        harness.wait_until_it_works(task, "DESIGN")
        harness.wait_for("the end of a stage", lambda: Reason.PHASE in reasons(harness, task))
        assert harness.stop() == 0
        harness.start()
        assert Reason.STOP in reasons(harness, task)
        (tmp_path / "go").touch()
        harness.wait_for_end(task)
        kept = harness.client.checkpoints(task).checkpoints
        assert kept
        assert len(kept) <= 10
        done = harness.cli("checkpoints", "restore", task, str(kept[0].number))
        assert done.returncode == 0, done.stderr


def test_one_is_taken_again_and_again_while_an_agent_works_and_not_while_it_stands_still(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [[HALF_DONE, FOR_EVER]]}, checkpoint_every=0.3) as harness:
        task = harness.submit()
        worktree = Path(harness.wait_until_it_works(task, "IMPLEMENTATION").worktree or "")
        harness.wait_for("work that is not committed", (worktree / "half-done.txt").exists)

        def with_work() -> list[str]:
            found = harness.client.checkpoints(task).checkpoints
            return [one.work.commit for one in found if one.reason is Reason.INTERVAL and one.work and one.work.commit]

        harness.wait_for("several", lambda: len(with_work()) > 2)
        assert len(set(with_work())) == 1, "unchanged work is one commit"
        harness.client.request(task, "pause")
        harness.wait_until_frozen(task)
        harness.wait_for("the one of the pause", lambda: reasons(harness, task)[0] is Reason.USER)
        assert all(reasons(harness, task)[0] is Reason.USER for _ in harness.looks(seconds=1))


def test_a_task_whose_journal_is_gone_is_recovered_and_comes_to_its_end(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"PLANNING": [{"wait_for": str(tmp_path / "go")}]}) as harness:
        task = harness.submit()
        harness.wait_until_it_works(task, "PLANNING")
        assert harness.stop() == 0
        assert harness.cli("checkpoints", "recover", task).returncode == 1, "its journal can be read"
        (harness.folder(task) / "journal.jsonl").unlink()
        (harness.folder(task) / "state.json").write_bytes(b"\0" * 100)
        done = harness.cli("checkpoints", "recover", task)
        assert done.returncode == 0, done.stderr
        assert f"{task} is in_progress in " in done.stdout
        assert " again, from checkpoints/" in done.stdout
        harness.start()
        (tmp_path / "go").touch()
        harness.wait_for_end(task)
        assert len(harness.subjects(task)) == 3
        assert harness.cli("checkpoints", "recover", "../tasks").returncode == 2
