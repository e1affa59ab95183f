"""Inspect the repository that a person submits: what it is, where work can begin, or why it cannot.

The repository is only inspected (git.py says how that is safe); nothing in it is changed.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.git import Git, GitError, config_keys

_TRUNKS = ("main", "master")
_COMMIT = re.compile(r"^[0-9a-f]{7,64}$")


class RepositoryError(OrchestratorError):
    """A repository cannot be worked on; the message says which one, why, and what to do about it."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = path, problem, remedy
        super().__init__(f"{escape_text(str(path))} {problem}; {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository that work can begin in: git at its top folder, and the commit to begin from.

    `head_branch` is None if HEAD is detached, and `base` the name that `base_commit` was found by.
    """

    git: Git
    base: str
    base_commit: str
    head_branch: str | None = None
    bare: bool = False

    @property
    def path(self) -> Path:
        """The top folder."""
        return self.git.folder


def inspect_repository(path: Path, base: str | None = None) -> Repository:
    """Inspect the repository at `path` (its folder, a folder within it, or a bare one), to begin from `base` or HEAD.

    Raises RepositoryError for whatever keeps a task from beginning there.
    """
    try:
        git, bare = open_repository(path)
        head = git.ask("symbolic-ref", "--quiet", "HEAD")
        head_branch = head.removeprefix("refs/heads/") if head else None
        name, commit = _base(git, base, head_branch)
        return Repository(
            git=git,
            base=name,
            base_commit=commit,
            head_branch=head_branch,
            bare=bare,
        )
    except GitError as error:
        raise RepositoryError(path, f"cannot be read by git ({error})", "try the same command there by hand") from error


def open_repository(path: Path) -> tuple[Git, bool]:
    """Return git at the top folder of the repository around `path`, and whether it is a bare one.

    Raises RepositoryError if there is no repository, or its history is incomplete.
    """
    path = path.absolute()
    _must_be_folder(path)
    try:
        keys = config_keys(path)
        git = Git.foreign(path, keys)
        kind = git.run("rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--is-shallow-repository")
    except GitError as error:
        if "not a git repository" not in error.stderr:
            raise RepositoryError(path, f"cannot be read by git ({error.stderr})", "correct that first") from error
        raise RepositoryError(
            path, "is not a git repository", "run `git init` and commit there first, or submit it with --no-git"
        ) from error
    bare, inside, shallow = (word == "true" for word in kind.split())
    if inside and not bare:
        raise RepositoryError(path, "is the inside of a repository", "give the folder that holds it")
    if shallow:
        raise RepositoryError(path, "is a shallow clone", "run `git fetch --unshallow` there first")
    if _is_partial(keys):
        raise RepositoryError(
            path, "is a partial clone", "submit a full clone: objects are not fetched from its remote"
        )
    option = "--absolute-git-dir" if bare else "--show-toplevel"
    top = Path(git.run("rev-parse", option).removesuffix("\n"))
    if not path.resolve().is_relative_to(top.resolve()):
        raise RepositoryError(path, f"says that its files are in {escape_text(str(top))}", "unset core.worktree there")
    return replace(git, folder=top), bare


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunBranch:
    """A branch with work: what it was begun from, its newest commit, and its own commits, newest first."""

    base: str
    base_commit: str
    head: str
    commits: tuple[str, ...]


def inspect_branch(git: Git, branch: str, base: str | None = None) -> BegunBranch:
    """Return what was done on a branch since it left `base`, or else main or master. Raises RepositoryError."""
    try:
        _, head = _base(git, branch, None)
        bases = [base] if base else [name for name in _TRUNKS if git.ask("rev-parse", "-q", "--verify", name)]
        if not bases:
            raise RepositoryError(git.folder, "has neither main nor master", "say what it was begun from: `--base`")
        name, tip = _base(git, bases[0], None)
        begun = git.ask("merge-base", tip, head)
        if begun is None:
            raise RepositoryError(git.folder, f"has no common commit of {name} and {branch}", "give another `--base`")
        commits = tuple(git.run("rev-list", f"{begun}..{head}").split())
        return BegunBranch(base=name, base_commit=begun, head=head, commits=commits)
    except GitError as error:
        raise RepositoryError(git.folder, f"cannot be read by git ({error})", "correct that first") from error


def uncommitted(git: Git, timeout: float = 120.0) -> tuple[str, ...]:
    """Return the names of files that are changed, staged or new, but not committed. Raises GitError."""
    changed = ("--modified", "--deleted", "--others", "--exclude-standard", "--deduplicate")
    listed = git.run("ls-files", "-z", *changed, timeout=timeout)
    names = ("--name-only", "--no-ext-diff", "--no-textconv")
    staged = git.run("diff-index", "-z", "--cached", *names, "HEAD", "--", timeout=timeout)
    return tuple(dict.fromkeys(name for name in (*listed.split("\0"), *staged.split("\0")) if name))


def require_writable(git: Git, branch: str) -> None:
    """Refuse a repository in which this user could not create the branch in the end. Raises RepositoryError."""
    common = git.folder / git.run("rev-parse", "--git-common-dir").removesuffix("\n")
    for folder in _written_at_delivery(common, branch):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise RepositoryError(
                git.folder,
                f"takes no branch from this user, who must not write to {escape_text(str(folder))}",
                "let the daemon's user write there, or submit a clone of it that belongs to that user",
            )


def _written_at_delivery(common: Path, branch: str) -> Iterator[Path]:
    """Yield the folders in which git makes new files for a new branch: for objects, and for the branch and its log."""
    yield from (folder for folder in (common / "objects", common / "objects/pack") if folder.is_dir())
    for place in ("refs/heads", "logs/refs/heads"):
        parents = (common / place / branch).parents
        yield from [folder for folder in parents if folder.is_relative_to(common / place) and folder.is_dir()][:1]


def _must_be_folder(path: Path) -> None:
    try:
        is_folder = path.is_dir()
        exists = is_folder or path.exists()
    except (OSError, ValueError) as error:
        raise RepositoryError(path, f"cannot be read ({error})", "let this user read it") from error
    if not exists:
        raise RepositoryError(path, "does not exist (DIRECTORY_NOT_FOUND)", "check the path")
    if not is_folder:
        raise RepositoryError(path, "is not a folder", "give the folder of the repository")


def _is_partial(keys: Sequence[str]) -> bool:
    return any(key == "extensions.partialclone" or re.match(r"^remote\..*\.promisor$", key, re.DOTALL) for key in keys)


def _base(git: Git, base: str | None, head_branch: str | None) -> tuple[str, str]:
    if base is not None:
        # git would resolve or reject what cannot be a name, such as main@{upstream}
        can_be_name = "\0" not in base and git.ask("check-ref-format", f"refs/heads/{base}") is not None
        places = [f"refs/{kind}/{base}" for kind in ("heads", "remotes/origin", "tags") if can_be_name]
        for place in places + ([base] if _COMMIT.fullmatch(base) else []):
            commit = git.ask("rev-parse", "--verify", "--quiet", place + "^{commit}")
            if commit is not None:
                return base, commit
        known = git.run("for-each-ref", "--count=10", "--format=%(refname:short)", "refs/heads").split("\n")
        names = ", ".join(escape_text(name) for name in known if name) or "none"
        raise RepositoryError(
            git.folder, f"has no branch, tag or commit {escape_text(base)!r}", f"its branches: {names}"
        )
    commit = git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if commit is None:
        raise RepositoryError(git.folder, "has no commit on its current branch", "commit something, or give `--base`")
    if head_branch is None:
        raise RepositoryError(git.folder, "is on no branch (detached HEAD)", "say where to begin: `--base BRANCH`")
    return head_branch, commit
