"""Make a git repository of an empty folder, for work that begins with nothing.

It is the only place where the daemon makes something in a folder of the user's: never in one that has any file.
"""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import RepositoryError

MESSAGE = "Begin with nothing"
_BRANCH = "main"


@contextmanager
def repository_in(path: Path) -> Generator[None, None, None]:
    """Make a repository with an empty first commit in an empty folder; make the folder too if only that is missing.

    A folder with anything in it is left as it is. If what follows fails, nothing is left of the new repository.
    Raises RepositoryError.
    """
    made = _made(path.absolute())
    try:
        yield
    except BaseException:
        for folder in made:
            _undo(folder)
        raise


def _made(path: Path) -> list[Path]:
    """Return what was made in order to have a repository, the newest first."""
    made: list[Path] = []
    try:
        if not path.exists() and path.parent.is_dir():
            path.mkdir()
            made.insert(0, path)
        if not path.is_dir() or any(path.iterdir()):
            return made
        made.insert(0, path / ".git")
        _init(path)
    except (OSError, ValueError, GitError) as error:
        for folder in made:
            _undo(folder)
        raise RepositoryError(path, f"cannot become a repository ({error})", "let this user write there") from error
    return made


def _init(path: Path) -> None:
    branch = Git(folder=path.parent).setting("init.defaultBranch") or _BRANCH
    git = Git(folder=path)
    git.run("init", "--quiet", "--template=", f"--initial-branch={branch}")
    commit = git.run("commit-tree", "-m", MESSAGE, git.run("mktree").strip()).strip()
    git.run("update-ref", "-m", MESSAGE, f"refs/heads/{branch}", commit, "0" * len(commit))


def _undo(folder: Path) -> None:
    """Remove a `.git` that was made, or a folder if it is empty again."""
    if folder.name == ".git":
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
