"""Work in a folder without git: its owner finds the result in it, and no repository."""

import shutil
from pathlib import Path

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness


def plain(harness: DaemonHarness) -> Path:
    """The user's files, without their repository."""
    folder = harness.root / "plain"
    shutil.copytree(harness.repo, folder, ignore=shutil.ignore_patterns(".git"))
    return folder


def test_the_result_is_brought_back_to_a_folder_without_git(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = plain(harness)
        before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        task = harness.submit(repo=folder, no_git=True)
        done = harness.wait_for_end(task)
        assert (done.status, done.block_reason) == (TaskStatus.COMPLETED, None)
        assert f"files: {folder}" in (done.closing or "")
        after = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert not (folder / ".git").exists()
        assert {path for path in after if after[path] != before.get(path)}, "the work is there"
        assert harness.stop() == 0
        assert harness.nothing_is_left()


def test_a_file_that_its_owner_changed_blocks_the_task_and_nothing_is_lost(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = plain(harness)
        task = harness.submit(repo=folder, no_git=True)
        module = folder / "textkit/__init__.py"
        module.write_text("# mine now\n")
        blocked = harness.wait_until(task, lambda now: now.status is TaskStatus.BLOCKED)
        assert "the same files were changed meanwhile" in (blocked.block_reason or "")
        assert module.read_text() == "# mine now\n"
