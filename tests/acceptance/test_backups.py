"""A backup of a working daemon, restored to another path, goes on with every task."""

import json
import random
import subprocess
import tempfile
from pathlib import Path

import httpx

from orchestrator import __version__
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.versions import VERSION
from tests.acceptance.harness import DaemonHarness
from tests.chaos_restores import RestoredHarness, restores
from tests.fakes.repositories import git

SLOW = {"IMPLEMENTATION": [{"think_ms": 1500}]}


def test_backups_at_random_moments_are_restored_to_another_path_and_complete_their_tasks() -> None:
    with tempfile.TemporaryDirectory() as folder:  # sockets have short paths
        found = [toll for _, toll in restores(Path(folder), random.Random(20), 3)]
    assert [toll.damage for toll in found] == [0, 0, 0]
    assert sum(toll.ends[TaskStatus.COMPLETED] for toll in found) == 3


def test_work_that_the_original_delivered_after_the_backup_is_kept_beside_the_restored_ones(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path / "original", scenario=SLOW) as original:
        task = original.submit()
        original.wait_until_it_works(task, "IMPLEMENTATION")
        assert original.cli("backup", str(tmp_path / "early.tar.zst")).returncode == 0
        original.wait_for_end(task)
        branch = original.state(task)["branch"]
        delivered = git(original.repo, "rev-parse", branch).strip()
        original.stop_all()
        copy = RestoredHarness(tmp_path / "copy", original, tmp_path / "early.tar.zst")
        copy.restore()
        with copy:
            copy.wait_for_end(task)
        tips = git(original.repo, "for-each-ref", "--format=%(objectname)", "refs/heads/feature").split()
        assert delivered in tips
        assert copy.state(task)["branch"] == branch


def test_a_backup_goes_to_standard_output_and_is_verified_and_listed(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        with (tmp_path / "piped.tar.zst").open("wb") as out:
            assert harness.begin("backup", "-", out=out, err=subprocess.DEVNULL).wait(60) == 0
        verified = harness.cli("backup", "verify", str(tmp_path / "piped.tar.zst"))
        assert verified.stdout.startswith("whole: "), verified.stderr
        listed = harness.cli("backup", "list", str(tmp_path / "piped.tar.zst")).stdout
        assert f"data/tasks/{task}/journal.jsonl" in listed
        asked = harness.cli("backup", "list", str(tmp_path / "piped.tar.zst"), "--json")
        assert json.loads(asked.stdout)["dataDir"] == str(harness.data)


def test_a_restore_over_a_living_daemons_folder_is_refused(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        file = str(tmp_path / "backup.tar.zst")
        assert harness.cli("backup", file).returncode == 0
        refused = harness.cli("restore", file)
        assert (refused.returncode, "the data folder of a daemon" in refused.stderr) == (5, True)
        again = harness.cli("backup", file)
        assert (again.returncode, "--force" in again.stderr) == (5, True)
        assert harness.cli("backup", file, "--force").returncode == 0


def test_a_command_and_a_daemon_tell_each_other_their_versions(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        transport = httpx.HTTPTransport(uds=str(harness.client.socket))
        with httpx.Client(transport=transport, base_url="http://daemon") as http:
            assert http.get("/api/status").headers[VERSION] == __version__
        assert harness.cli("status").stderr == ""
