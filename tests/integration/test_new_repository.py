"""A repository made of an empty folder, and every folder that is left alone."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.workspaces.new_repository import MESSAGE, repository_in
from orchestrator.workspaces.repository import RepositoryError, inspect_repository
from tests.fakes.repositories import git, repository


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_or_missing_folder_becomes_a_repository_with_an_empty_commit(tmp_path: Path, exists: bool) -> None:
    place = tmp_path / "app"
    if exists:
        place.mkdir()
    with repository_in(place):
        found = inspect_repository(place)
    assert (found.path, found.base) == (place, "main")
    assert git(place, "log", "--format=%s|%an") == f"{MESSAGE}|orchestrator"
    assert git(place, "ls-tree", "-r", "HEAD") == git(place, "status", "--porcelain") == ""
    assert git(place, "config", "--list", "--local", "--name-only").splitlines() == [
        "core.repositoryformatversion",
        "core.filemode",
        "core.bare",
        "core.logallrefupdates",
    ]
    with repository_in(place):
        assert inspect_repository(place) == found, "a second submission finds the repository as it is"


def test_a_folder_with_anything_in_it_is_left_as_it_is(tmp_path: Path) -> None:
    for number, name in enumerate((".hidden", "README.md", "folder")):
        place = tmp_path / str(number)
        (place / name).mkdir(parents=True)
        with repository_in(place):
            assert [path.name for path in place.iterdir()] == [name]
    with repository_in(tmp_path / "0" / "missing" / "deeper"):
        assert not (tmp_path / "0" / "missing").exists()


def test_an_empty_folder_within_another_repository_gets_one_of_its_own(tmp_path: Path) -> None:
    repository(tmp_path / "outer")
    place = tmp_path / "outer/app"
    place.mkdir()
    with repository_in(place):
        assert inspect_repository(place).path == place
    assert git(tmp_path / "outer", "log", "--format=%s") == "a change"


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_left_of_it_if_the_submission_is_refused(tmp_path: Path, exists: bool) -> None:
    place = tmp_path / "app"
    if exists:
        place.mkdir()
    with pytest.raises(RepositoryError, match="has no branch"), repository_in(place):
        inspect_repository(place, "made-up")
    assert place.exists() is exists
    assert not list(place.glob("*")) if exists else True


@pytest.mark.parametrize("work", ["a file", "a commit", "a branch"])
def test_what_somebody_else_put_into_it_meanwhile_is_kept(tmp_path: Path, work: str) -> None:
    place = tmp_path / "app"

    def refused() -> None:
        with repository_in(place):
            if work == "a file":
                (place / "mine.txt").write_text("mine\n")
            elif work == "a commit":
                git(place, "commit", "--quiet", "--allow-empty", "-m", "mine")
            else:
                git(place, "branch", "mine")
            inspect_repository(place, "made-up")

    with pytest.raises(RepositoryError, match="has no branch"):
        refused()
    assert inspect_repository(place).path == place
    assert (place / "mine.txt").exists() is (work == "a file")


@pytest.mark.parametrize("step", ["init", "commit-tree", "update-ref"])
def test_a_crash_while_it_is_made_leaves_the_folder_usable(tmp_path: Path, step: str) -> None:
    place, programs = tmp_path / "app", tmp_path / "programs"
    place.mkdir()
    programs.mkdir()
    real = shutil.which("git")
    program = programs / "git"  # kills the submitting process after one step
    program.write_text(f"""#!/bin/sh
{real} "$@"; code=$?
case " $* " in *" {step} "*) kill -9 $PPID ;; esac
exit $code
""")
    program.chmod(0o755)
    code = "import sys; from pathlib import Path; from orchestrator.workspaces.new_repository import repository_in\n"
    code += "with repository_in(Path(sys.argv[1])): pass"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run([sys.executable, "-c", code, str(place)], env={**os.environ, "PATH": path}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not (place / ".git").exists()
    with repository_in(place):
        assert inspect_repository(place).base == "main"
    assert [found.name for found in place.iterdir()] == [".git"]


def test_a_folder_that_cannot_be_written_to_is_refused_with_its_name(tmp_path: Path) -> None:
    place = tmp_path / ("a" * 300)
    with pytest.raises(RepositoryError, match="cannot become a repository"), repository_in(place):
        raise AssertionError
