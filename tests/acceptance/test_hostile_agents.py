"""Agents without a sandbox that turn against their daemon: they are found out, stopped, and get nothing passed."""

import json
import os
import shlex
import signal
import sys
from pathlib import Path

import psutil

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness, Json, state_of

FORGES_ITS_EXIT = """
import json, os, pathlib, signal, sys
def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
def is_holder(pid):
    return b"orchestrator.processes.holder" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
if not os.path.exists(sys.argv[1]):
    holder = os.getpid()
    while not is_holder(holder):
        holder = parent(holder)
    run = os.environ["ORCHESTRATOR_RUN"]
    pathlib.Path(sys.argv[1]).write_text(run)
    os.kill(holder, signal.SIGSTOP)
    forged = {"code": 0, "signal": None, "timed_out": False, "spawn_error": None, "stopped_by": None, "swept": [],
              "lost": False, "ended_at": "2026-01-01T00:00:00Z"}
    pathlib.Path(run, "exit").write_text(json.dumps(forged))
    os.kill(holder, signal.SIGKILL)
sys.exit(3)
"""


def below(pid: int) -> list[psutil.Process]:
    """Every process that descends from this one."""
    return psutil.Process(pid).children(recursive=True)


def test_a_check_that_forges_its_own_pass_is_run_again_and_fails(tmp_path: Path) -> None:
    script = tmp_path / "forges.py"
    script.write_text(FORGES_ITS_EXIT)
    command = shlex.join([sys.executable, str(script), str(tmp_path / "forged")])
    checks = {"commands": {"lint": command}}
    with DaemonHarness(tmp_path / "harness", isolation="none", checks=checks) as harness:
        task = harness.submit()

        def results() -> list[Json | None]:
            ends = [line["event"] for line in harness.journal(task, "CheckFinished")]
            return [end["result"] for end in ends if end["name"] == "lint"]

        harness.wait_for("two results of the check", lambda: len(results()) > 1)
        lost, failed, *_ = results()
        assert Path((tmp_path / "forged").read_text(), "exit").exists()
        assert lost is None
        assert failed is not None
        assert failed["exit_code"] == 3
        harness.request("POST", f"/api/tasks/{task}/cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)


def test_cancel_ends_an_agent_that_moved_its_run_folder_also_after_a_restart(tmp_path: Path) -> None:
    lives_on = "env -u ORCHESTRATOR_RUN setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.1; done'"
    scenario: Json = {"ANALYSIS": [{"grandchild": lives_on, "wait_for": str(tmp_path / "never")}]}
    with DaemonHarness(tmp_path / "harness", scenario, isolation="none") as harness:
        task = harness.submit()
        run = harness.wait_until(task, lambda now: now.run and now.agent.pid).run
        assert run is not None
        folder = harness.folder(task) / run.folder
        holder = int(json.loads((folder / "pid").read_text())["holder"])
        harness.wait_for("the grandchild", lambda: any("trap" in " ".join(one.cmdline()) for one in below(holder)))
        tree = [process.pid for process in below(holder)]
        harness.kill()
        folder.rename(tmp_path / "moved")
        harness.start()
        harness.request("POST", f"/api/tasks/{task}/cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        harness.wait_for("the end of the tree", lambda: all(state_of(pid) in "-Z" for pid in (*tree, holder)))
        assert harness.nothing_is_left()


def test_cancel_ends_an_agent_that_stopped_its_holder(tmp_path: Path) -> None:
    scenario: Json = {"ANALYSIS": [{"wait_for": str(tmp_path / "never")}]}
    with DaemonHarness(tmp_path / "harness", scenario, isolation="none") as harness:
        task = harness.submit()
        run = harness.wait_until(task, lambda now: now.run and now.agent.pid).run
        assert run is not None
        holder = int(json.loads((harness.folder(task) / run.folder / "pid").read_text())["holder"])
        os.kill(holder, signal.SIGSTOP)
        harness.request("POST", f"/api/tasks/{task}/cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        assert harness.nothing_is_left()


def test_a_task_whose_pipeline_was_changed_between_two_starts_is_blocked(tmp_path: Path) -> None:
    scenario: Json = {"ANALYSIS": [{"wait_for": str(tmp_path / "never")}]}
    with DaemonHarness(tmp_path / "harness", scenario) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.run and now.agent.pid)
        harness.kill()
        pipeline = harness.folder(task) / "pipeline.toml"
        accepted = pipeline.read_text()
        pipeline.write_text(accepted.replace('next = "EVALUATION"', 'next = "COMPLETION"'))
        harness.start()
        blocked = harness.wait_until(task, lambda now: now.status is TaskStatus.BLOCKED)
        assert "not the pipeline that was accepted" in (blocked.block_reason or "")
        assert harness.nothing_is_left()
