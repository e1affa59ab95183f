"""What a task made, fetched as one archive."""

from pathlib import Path
from zipfile import ZipFile

from tests.acceptance.harness import DaemonHarness, refused
from tests.fakes.repositories import git


def test_what_a_task_made_is_downloaded_as_an_archive(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        waiting = harness.submit(draft=True)
        with refused("no-such-file", waiting), (tmp_path / "nothing.zip").open("wb") as nothing:
            harness.client.deliverables(waiting, nothing)
        task = harness.wait_for_end(harness.submit())
        target = tmp_path / "made.zip"
        done = harness.cli("download", task.id, "--output", str(target))
        assert (done.returncode, done.stdout.strip()) == (0, str(target))
        again = harness.cli("download", task.id, "--output", str(target))
        assert again.returncode == 2
        assert "exists already" in again.stderr
        with ZipFile(target) as archive:
            assert archive.testzip() is None
            names = archive.namelist()
            assert {"artifacts/plan.md", "artifacts/analysis.md", "artifacts/summary.md"} <= set(names)
            changed = git(harness.repo, "diff", "--name-only", task.base_commit, task.branch).splitlines()
            assert [name.removeprefix("files/") for name in names if name.startswith("files/")] == sorted(changed)
            for name in changed:
                assert archive.read(f"files/{name}").decode().strip() == git(
                    harness.repo, "show", f"{task.branch}:{name}"
                )
        harness.client.request(task.id, "archive")
        with (tmp_path / "later.zip").open("wb") as later:
            harness.client.deliverables(task.id, later)
        with ZipFile(tmp_path / "later.zip") as archive:
            assert archive.namelist() == names
