"""The daemon's git with real repositories, especially hostile ones."""

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrator.workspaces.git import SERVER, Git, GitError
from orchestrator.workspaces.repository import RepositoryError, inspect_repository
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import Trap, commit, git, repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repository(tmp_path / "repo")
    return tmp_path / "repo"


def test_the_trap_works_on_a_plain_git_command(repo: Path, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    trap.set_in(repo / ".git")
    (repo / "a.txt").write_text("two\n")
    with pytest.raises(GitError, match="filter 'trap' failed"):
        Git(folder=repo).run("add", "a.txt")
    assert "program" in trap.sprung


def test_no_program_of_a_hostile_repository_runs_when_it_is_inspected(repo: Path, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    (repo / ".gitattributes").write_text("* filter=trap diff=trap\n")
    trap.set_in(repo / ".git")
    (repo / "a.txt").write_text("two\n")
    assert inspect_repository(repo).head_branch == "main"
    assert Git.foreign(repo).ask("diff", "--quiet") is None
    assert trap.sprung == ""


def test_a_program_behind_an_include_is_found_and_disabled(repo: Path, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    (tmp_path / "elsewhere").mkdir()
    trap.set_in(tmp_path / "elsewhere")
    git(repo, "config", "include.path", str(tmp_path / "elsewhere/config"))
    (repo / ".git/info/attributes").write_text("* filter=trap\n")
    (repo / "a.txt").write_text("two\n")
    Git.foreign(repo).run("add", "a.txt")
    assert trap.sprung == ""


def test_a_filter_with_an_unusual_name_is_disabled(repo: Path, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    config = repo / ".git/config"
    config.write_text(config.read_text() + f'[filter "a=b.c"]\n\tclean = "{tmp_path}/trap/program"\n\trequired\n')
    (repo / ".git/info/attributes").write_text("* filter=a=b.c\n")
    (repo / "a.txt").write_text("two\n")
    Git.foreign(repo).run("add", "a.txt")
    assert trap.sprung == ""
    Git(folder=repo).run("add", "--renormalize", "a.txt")
    assert trap.sprung != ""


def test_a_remote_that_is_a_program_is_not_fetched(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "protocol.ext.allow", "always")
    with pytest.raises(GitError, match="ext"):
        Git.foreign(repo).run("fetch", f"ext::sh -c touch% {tmp_path}/sprung")
    assert not (tmp_path / "sprung").exists()


def test_the_server_side_of_a_fetch_runs_nothing_of_the_repository(repo: Path, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    trap.set_in(repo / ".git")
    repository(tmp_path / "mine")
    mine = Git.own(tmp_path / "mine/.git")
    mine.run("fetch", "--upload-pack", SERVER, str(repo), "+HEAD:refs/heads/theirs")
    assert mine.ask("rev-parse", "--verify", "--quiet", "refs/heads/theirs") is not None
    assert trap.sprung == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_repository_of_another_user_can_be_inspected(repo: Path) -> None:
    for path in [repo, *repo.rglob("*")]:
        os.lchown(path, 12345, 12345)
    assert inspect_repository(repo).head_branch == "main"


def test_an_error_names_the_command_the_exit_code_and_the_output_of_git(repo: Path) -> None:
    with pytest.raises(GitError, match=r"`git rev-parse nowhere` failed with exit code 128: .*nowhere") as caught:
        Git(folder=repo).run("rev-parse", "nowhere")
    assert caught.value.code == 128


def test_external_control_characters_do_not_reach_the_message(repo: Path) -> None:
    with pytest.raises(GitError) as caught:
        Git(folder=repo).run("cat-file", "-e", "no\x1b[2Jwhere\n")
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_git_that_never_ends_is_stopped(repo: Path) -> None:
    os.mkfifo(repo / ".gitignore-fifo")
    (repo / ".gitignore").unlink(missing_ok=True)
    (repo / ".gitignore-fifo").rename(repo / ".gitignore")
    begin = time.monotonic()
    with pytest.raises(GitError, match="did not end in time"):
        Git(folder=repo).run("ls-files", "--others", "--exclude-standard", timeout=0.5)
    assert time.monotonic() - begin < 10


def test_an_invalid_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError):
        inspect_repository(tmp_path / "a\0b")


def test_a_folder_that_is_missing_or_not_a_repository_is_refused_with_instructions(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"does not exist \(DIRECTORY_NOT_FOUND\); check the path"):
        inspect_repository(tmp_path / "nowhere")
    with pytest.raises(RepositoryError, match="not a git repository; run `git init`"):
        inspect_repository(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RepositoryError, match="not a folder"):
        inspect_repository(tmp_path / "file")


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(RepositoryError, match="no commit"):
        inspect_repository(tmp_path)


def test_a_detached_head_needs_a_base(repo: Path) -> None:
    git(repo, "checkout", "--quiet", "--detach")
    with pytest.raises(RepositoryError, match="--base BRANCH"):
        inspect_repository(repo)
    assert inspect_repository(repo, "main").base == "main"


def test_a_base_is_a_branch_a_tag_or_a_commit(repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "v1")
    commit(repo, {"a.txt": "two\n"})
    assert inspect_repository(repo, "v1").base_commit == first
    assert inspect_repository(repo, first).base_commit == first
    assert inspect_repository(repo).base_commit != first


@pytest.mark.parametrize(
    "base", ["nope", "--all", "a b", "", "\n", "@{-1}", "main@{upstream}", "main..main", "main\0", "\x1b[0m"]
)
def test_a_missing_base_is_refused_with_the_existing_branches(repo: Path, base: str) -> None:
    with pytest.raises(RepositoryError, match="its branches: main") as caught:
        inspect_repository(repo, base)
    assert "\x1b" not in str(caught.value)


def test_a_bare_repository_and_a_folder_inside_a_repository_are_accepted(repo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(repo), "bare.git")
    bare = inspect_repository(tmp_path / "bare.git")
    assert (bare.bare, bare.head_branch) == (True, "main")
    (repo / "inner").mkdir()
    assert inspect_repository(repo / "inner").path == repo
    with pytest.raises(RepositoryError, match="inside of a repository"):
        inspect_repository(repo / ".git")


def test_a_repository_without_its_full_history_is_refused(repo: Path, tmp_path: Path) -> None:
    commit(repo, {"a.txt": "two\n"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "shallow")
    with pytest.raises(RepositoryError, match="git fetch --unshallow"):
        inspect_repository(tmp_path / "shallow")
    git(repo, "config", "remote.origin.promisor", "true")
    with pytest.raises(RepositoryError, match="partial clone"):
        inspect_repository(repo)


def test_references_to_external_files_are_not_followed(repo: Path, tmp_path: Path) -> None:
    git(repo, "config", "core.worktree", "/etc")
    with pytest.raises(RepositoryError, match=r"unset core\.worktree"):
        inspect_repository(repo)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], check=False).returncode:
        pytest.skip("a full disk can only be made by root, who may mount one")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_told_apart_wherever_git_meets_it(small_disk: Path, tmp_path: Path) -> None:
    base = repository(tmp_path / "repo", {f"{number}.bin": os.urandom(3000).hex() for number in range(20)})
    ballast = small_disk / "ballast"
    endings = set()
    for pages in range(0, 120, 3):
        ballast.write_bytes(b"")
        with suppress(FileNotFoundError):
            shutil.rmtree(small_disk / "data")
        ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - 4096 * pages))
        try:
            workspace = Workspace(small_disk / "data")
            prepared = workspace.prepare("T-1", tmp_path / "repo", base, "feature/T-1")
            (prepared.worktree / "new.txt").write_text("new\n")
            workspace.checkpoint("T-1", 1, "a checkpoint")
            endings.add("saved")
        except OSError as error:
            endings.add(errno.errorcode[error.errno or 0])
    assert endings == {"ENOSPC", "saved"}
