"""A folder without git: what it holds is kept in a repository elsewhere, and the result comes back to it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.plain_folder import bring_back, snapshot
from orchestrator.workspaces.repository import RepositoryError, inspect_repository
from tests.fakes.repositories import git, repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files."""
    made = tmp_path / "notes"
    (made / "sub").mkdir(parents=True)
    (made / "a.txt").write_text("one\n")
    (made / "sub/b.txt").write_text("two\n")
    (made / ".gitignore").write_text("*.log\n")
    (made / "run.log").write_text("not kept\n")
    return made


def changed(repo: Path, files: dict[str, str]) -> tuple[str, str]:
    """Commit changes on a branch of the repository, as a task does; the base and the new commit."""
    work = repo.parent / "work"
    git(repo.parent, "clone", "--quiet", str(repo), str(work))
    base = git(work, "rev-parse", "HEAD")
    for name, body in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(body) if body else (work / name).unlink()
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", "the work")
    git(work, "push", "--quiet", "origin", "HEAD:refs/heads/work")
    return base, git(work, "rev-parse", "HEAD")


def listed(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_snapshot_holds_the_folder_and_leaves_it_without_git(folder: Path, tmp_path: Path) -> None:
    repo = snapshot(folder, tmp_path / "data/folders")
    found = inspect_repository(repo)
    assert git(repo, "ls-tree", "-r", "--name-only", found.base_commit).split() == [".gitignore", "a.txt", "sub/b.txt"]
    assert snapshot(folder, tmp_path / "data/folders") == repo
    assert git(repo, "rev-list", "--count", "main") == "1", "nothing has changed, so nothing is committed"
    (folder / "a.txt").write_text("three\n")
    snapshot(folder, tmp_path / "data/folders")
    assert git(repo, "show", "main:a.txt") == "three"
    assert not (folder / ".git").exists()


def test_the_result_comes_back_and_what_others_did_meanwhile_stays(folder: Path, tmp_path: Path) -> None:
    repo = snapshot(folder, tmp_path / "data/folders")
    base, done = changed(repo, {"a.txt": "ONE\n", "new/c.txt": "three\n", "sub/b.txt": ""})
    (folder / "mine.txt").write_text("mine\n")
    for _ in range(2):
        bring_back(repo, folder, base, done)
        assert listed(folder) == [".gitignore", "a.txt", "mine.txt", "new/c.txt", "run.log"]
        assert (folder / "a.txt").read_text() == "ONE\n"
    (folder / "mine.txt").write_text("changed later\n")
    bring_back(repo, folder, base, done)
    assert (folder / "mine.txt").read_text() == "changed later\n"


def test_what_a_crash_left_half_done_is_finished(folder: Path, tmp_path: Path) -> None:
    (folder / "d.txt").write_text("four\n")
    repo = snapshot(folder, tmp_path / "data/folders")
    base, done = changed(repo, {"a.txt": "ONE\n", "new/c.txt": "three\n", "sub/b.txt": "", "d.txt": "FOUR\n", "e": "5"})
    (folder / "a.txt").write_text("ONE\n")
    (folder / "new").mkdir()
    (folder / "new/c.txt").write_text("three\n")
    (folder / "sub/b.txt").unlink()
    bring_back(repo, folder, base, done)
    assert listed(folder) == [".gitignore", "a.txt", "d.txt", "e", "new/c.txt", "run.log"]
    assert [(folder / name).read_text() for name in ("a.txt", "d.txt", "e")] == ["ONE\n", "FOUR\n", "5"]


def test_submissions_and_results_of_one_folder_do_not_disturb_each_other(folder: Path, tmp_path: Path) -> None:
    repo = snapshot(folder, tmp_path / "data/folders")
    base, done = changed(repo, {"a.txt": "ONE\n", "new/c.txt": "three\n"})

    def submit(number: int) -> None:
        (folder / f"{number}.txt").write_text("mine\n")
        assert snapshot(folder, tmp_path / "data/folders") == repo

    with ThreadPoolExecutor(8) as threads:
        ended = [threads.submit(submit, number) for number in range(24)]
        ended += [threads.submit(bring_back, repo, folder, base, done) for _ in range(8)]
    for one in ended:
        one.result()
    snapshot(folder, tmp_path / "data/folders")
    kept = git(repo, "ls-tree", "-r", "--name-only", "main").split()
    assert kept == [name for name in listed(folder) if name != "run.log"]
    assert {"23.txt", "new/c.txt"} <= set(kept)


@pytest.mark.parametrize("name", ["a.txt", "new/c.txt"])
def test_a_file_that_somebody_changed_meanwhile_is_not_overwritten(folder: Path, tmp_path: Path, name: str) -> None:
    repo = snapshot(folder, tmp_path / "data/folders")
    base, done = changed(repo, {"a.txt": "ONE\n", "new/c.txt": "three\n"})
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("somebody's own\n")
    with pytest.raises(WorkspaceError, match=f"the work is safe as {done}"):
        bring_back(repo, folder, base, done)
    assert (folder / name).read_text() == "somebody's own\n"
    others = [other for other in ("a.txt", "new/c.txt") if other != name and (folder / other).exists()]
    assert [(folder / other).read_text() for other in others] in ([], ["one\n"]), "nothing was brought back in part"


def test_links_are_kept_as_links_and_never_followed(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret\n")
    (folder / "link").symlink_to(secret)
    repo = snapshot(folder, tmp_path / "data/folders")
    assert git(repo, "show", "main:link") == str(secret)
    base, done = changed(repo, {"a.txt": "ONE\n"})
    bring_back(repo, folder, base, done)
    assert secret.read_text() == "a secret\n"


def test_a_folder_inside_a_repository_is_refused(tmp_path: Path) -> None:
    repository(tmp_path / "repo", {"sub/a.txt": "one\n"})
    with pytest.raises(RepositoryError, match=r"lies in the repository .*; leave --no-git out"):
        snapshot(tmp_path / "repo/sub", tmp_path / "data/folders")
    with pytest.raises(RepositoryError, match="is not a folder"):
        snapshot(tmp_path / "missing", tmp_path / "data/folders")


@pytest.mark.parametrize("name", ["/", "/proc", "/proc/self/root", "/proc/self/fd", "/sys/kernel", "/dev"])
def test_a_part_of_the_machine_is_refused_before_it_is_read(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("it was read"))
    link = tmp_path / "link"
    link.symlink_to(name)
    for folder in (Path(name), link):
        with pytest.raises(RepositoryError, match="is a part of the machine"):
            snapshot(folder, tmp_path / "data/folders")


def test_the_data_of_the_daemon_is_never_taken_along(folder: Path, tmp_path: Path) -> None:
    (folder / "data/tasks").mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    for place in (folder, folder / "data", folder / "data/tasks", tmp_path / "link", tmp_path):
        with pytest.raises(RepositoryError, match="holds the daemon's own data"):
            snapshot(place, folder / "data/folders")
    assert not (folder / "data/folders").exists()
    assert snapshot(folder / "sub", folder / "data/folders").exists()


def test_a_folder_that_was_hardly_meant_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.workspaces.plain_folder.MOST_FILES", 3)
    with pytest.raises(RepositoryError, match="holds more than 3 files"):
        snapshot(folder, tmp_path / "data/folders")
    assert not (tmp_path / "data/folders").exists()
