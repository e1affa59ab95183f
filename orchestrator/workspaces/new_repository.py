"""Make a git repository of an empty folder, for work that begins with nothing.

It is the only place where the daemon makes something in a folder of the user's: never in one that has any file.
"""

import re
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import RepositoryError

MESSAGE = "Begin with nothing"
_BRANCH = "main"
_ASIDE = ".git-orchestrator-"
"""How the name of a repository begins while it is made: a crash leaves no `.git` without a commit."""
_LEFTOVER = re.compile(re.escape(_ASIDE) + "[0-9a-f]{16}")
_one_at_a_time = threading.Lock()


@contextmanager
def repository_in(path: Path) -> Generator[None, None, None]:
    """Make a repository with an empty first commit in an empty folder; make the folder too if only that is missing.

    A folder with anything in it is left as it is. If what follows fails, nothing is left of the new repository,
    unless somebody else has begun to use it.
    Raises RepositoryError.
    """
    made = _made(path.absolute())
    try:
        yield
    except BaseException:
        _undo(made)
        raise


@dataclass(slots=True)
class _Made:
    """What was made of `folder` in order to have a repository: perhaps itself, and perhaps a branch at a commit."""

    folder: Path
    is_new: bool = False
    ref: str = ""
    commit: str = ""


def _made(path: Path) -> _Made:
    made = _Made(path)
    try:
        if not path.exists() and path.parent.is_dir():
            path.mkdir()
            made.is_new = True
        with _one_at_a_time:
            if path.is_dir() and all(_is_leftover(found) for found in path.iterdir()):
                for leftover in tuple(path.iterdir()):
                    shutil.rmtree(leftover)
                _init(made)
    except (OSError, ValueError, GitError) as error:
        _undo(made)
        raise RepositoryError(path, f"cannot become a repository ({error})", "let this user write there") from error
    return made


def _is_leftover(found: Path) -> bool:
    """Return whether this is a repository that a crash left half made."""
    return bool(_LEFTOVER.fullmatch(found.name)) and found.is_dir() and not found.is_symlink()


def _init(made: _Made) -> None:
    path = made.folder
    branch = Git(folder=path.parent).setting("init.defaultBranch") or _BRANCH
    aside = path / f"{_ASIDE}{token_hex(8)}"
    try:
        aside.mkdir()
        git = Git(folder=aside)
        git.run("init", "--quiet", "--template=", f"--initial-branch={branch}")
        commit = git.run("commit-tree", "-m", MESSAGE, git.run("mktree").strip()).strip()
        git.run("update-ref", "-m", MESSAGE, f"refs/heads/{branch}", commit, "0" * len(commit))
        (aside / ".git").rename(path / ".git")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    made.ref, made.commit = f"refs/heads/{branch}", commit


def _undo(made: _Made) -> None:
    """Remove the repository that was made, as long as nobody has put anything into it or its folder, and the folder."""
    with suppress(OSError, GitError):
        if made.ref and _is_untouched(made):
            shutil.rmtree(made.folder / ".git", ignore_errors=True)
        if made.is_new and not any(made.folder.iterdir()):
            made.folder.rmdir()


def _is_untouched(made: _Made) -> bool:
    if [path.name for path in made.folder.iterdir()] != [".git"]:
        return False
    git = Git.foreign(made.folder)
    refs = git.run("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return refs == [f"{made.ref} {made.commit}"] and git.ask("symbolic-ref", "--quiet", "HEAD") == made.ref
