"""Which commits an agent's repository leads to, and keeping those that no branch leads to any more.

Git drops commits when they are amended or reset, and when a branch is removed; its logs still name them for a while.
The daemon reads those logs as text, and asks only its own git about the commits, which reads the agent's objects beside
its own for that.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.formats.files import read_file
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import EARLIER, FETCH, Clone, WorkspaceError
from orchestrator.workspaces.git import SERVER_OF_ALL, Git

MOST_KEPT = 1000
"""How many dropped commits of one look at a worktree are kept, each with all that leads to it."""
MOST_LOGGED = 32 * 1024 * 1024
"""Bytes of git's logs of one repository that are read: some 200,000 lines."""

_OTHERS = ("--not", "--remotes", "--tags", "--glob=refs/orchestrator/*/delivered")
_LENT = ("refs/remotes/", "refs/tags/")
_LOGGED = re.compile(rb"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", re.MULTILINE)
_COMMIT = re.compile(rb"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")
_PLACES = ("ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge/orig-head")
_STASHED = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tips:
    """Commits of a repository by what leads to them: branches, HEADs, stashes and so on; `dropped` have only logs.

    `objects` are the names of refs to objects that are no commits and that the clone does not have.
    """

    named: Mapping[str, str]
    objects: tuple[str, ...]
    dropped: frozenset[str]


NO_TIPS = Tips(named={}, objects=(), dropped=frozenset())


def git_with(clone: Clone, worktree: Path) -> Git:
    """Return git on the clone that finds the objects of an agent's repository too."""
    return replace(clone.git, more_objects=worktree / ".git/objects")


def tips_of(clone: Clone, worktree: Path) -> Tips:
    """Return what a repository leads to, without the branches and tags that it was lent and that the clone has.

    Raises GitError, OSError, and WorkspaceError where not everything can be looked at.
    """
    place = worktree / ".git"
    listed = clone.git.run("ls-remote", "--upload-pack", SERVER_OF_ALL, str(place))
    rows = [line.split("\t", 1) for line in listed.splitlines() if "\t" in line]
    named = {name: sha for sha, name in rows} | dict(_named_by_files(place))
    dropped = set(_dropped(place))
    with_agents = types_of(git_with(clone, worktree), {*named.values(), *dropped})
    lent = {name for name, sha in named.items() if name.startswith(_LENT) or with_agents.get(sha) != "commit"}
    here = types_of(clone.git, {named[name] for name in lent})
    own = {name: sha for name, sha in named.items() if name not in lent or sha not in here}
    commits = {name: sha for name, sha in own.items() if with_agents.get(sha) == "commit"}
    return Tips(
        named=commits,
        objects=tuple(escape_text(name) for name in own if name not in commits),
        dropped=frozenset(sha for sha in dropped if with_agents.get(sha) == "commit") - set(commits.values()),
    )


def commits_beyond(
    git: Git, commits: Collection[str], known: Collection[str], *others: str
) -> dict[str, tuple[str, ...]]:
    """Return the commits that lead to these and are no part of the known ones, of which some may not be here; each with
    its parents.
    """
    unknown = set(commits).difference(known)
    if not unknown:
        return {}
    here = [sha for sha, kind in types_of(git, known).items() if kind in {"commit", "tag"}]
    asked = "".join(f"{sha}\n" for sha in unknown) + "".join(f"^{sha}\n" for sha in here)
    listed = git.run("rev-list", "--parents", "--stdin", *others, stdin=asked.encode())
    return {row[0]: tuple(row[1:]) for row in map(str.split, listed.splitlines())}


def commits_unknown(git: Git, commits: Collection[str], known: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the same without what the user's repository has, as far as it was fetched, or was given by any task.

    The known ones, which mostly have everything, are asked first: a clone may have very many branches.
    """
    beyond = commits_beyond(git, commits, known)
    return commits_beyond(git, [sha for sha in commits if sha in beyond], known, *_OTHERS) if beyond else {}


def keep_commits(clone: Clone, worktree: Path, task_id: str, commits: Collection[str]) -> None:
    """Take commits of an agent's repository into the clone, each under a ref of its own unless another ref has it.

    Raises WorkspaceError if they are too many.
    """
    own = own_refs(clone, task_id).values()
    beyond = commits_unknown(git_with(clone, worktree), commits, own)
    wanted = set(beyond).difference(*beyond.values())
    if len(wanted) > MOST_KEPT:
        raise WorkspaceError(
            f"{escape_text(str(worktree))} has {len(wanted)} dropped commits, and {MOST_KEPT} can be kept;"
            " `git reflog expire --expire=now --all` there drops them for good"
        )
    if wanted:
        refs = "".join(f"+{sha}:refs/orchestrator/{task_id}/{EARLIER}{sha}\n" for sha in sorted(wanted))
        clone.git.run(*FETCH, "--stdin", str(worktree / ".git"), stdin=refs.encode(), timeout=1800.0)


def own_refs(clone: Clone, task_id: str) -> dict[str, str]:
    """Return what a task has in the clone, by the name after its id."""
    below = f"refs/orchestrator/{task_id}/"
    listed = clone.git.run("for-each-ref", "--format=%(objectname) %(refname)", below)
    rows = (line.partition(" ") for line in listed.splitlines())
    return {name.removeprefix(below): sha for sha, _, name in rows}


def types_of(git: Git, objects: Collection[str]) -> dict[str, str]:
    """Return the type of each object that is there."""
    if not objects:
        return {}
    asked = "".join(f"{sha}\n" for sha in sorted(objects)).encode()
    rows = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).splitlines()
    return {sha: kind for sha, kind in (row.split(" ", 1) for row in rows) if kind != "missing"}


def _named_by_files(place: Path) -> Iterator[tuple[str, str]]:
    """Yield what no listing of refs has: HEADs of linked worktrees, stashes below the newest, and automatic ones."""
    older = [new for _, new in _logged(place / "logs/refs/stash")][:-1]
    for number, commit in enumerate(reversed(older), start=1):
        yield f"stash@{{{number}}}", commit
    for folder in _repositories(place):
        which = "" if folder == place else f"worktrees/{folder.name}/"
        for name in (*_STASHED, "HEAD") if which else _STASHED:
            content = read_file(folder / name)
            if content and _COMMIT.match(content.strip()):
                yield f"{which}{name}", content.strip().decode()


def _dropped(place: Path) -> Iterator[str]:
    """Yield the commits that logs of the repository name, except those of other repositories' branches."""
    left = MOST_LOGGED
    for folder in _repositories(place):
        for name in _PLACES:
            content = (read_file(folder / name) or b"").strip()
            if _COMMIT.match(content):
                yield content.decode()
        for path in _files_below(folder / "logs"):
            left -= path.lstat().st_size
            if left < 0:
                raise WorkspaceError(f"the logs of {escape_text(str(place))} are larger than {MOST_LOGGED} bytes")
            for pair in _logged(path):
                yield from pair


def _repositories(place: Path) -> Iterator[Path]:
    """Yield the folder of a repository, and those of its linked worktrees."""
    yield place
    linked = place / "worktrees"
    if linked.is_dir() and not linked.is_symlink():
        with os.scandir(linked) as entries:
            yield from (linked / entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _files_below(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():
        return
    for top, folders, names in os.walk(folder):
        if Path(top) == folder / "refs":
            folders[:] = [name for name in folders if name != "remotes"]
        yield from (Path(top, name) for name in names)


def _logged(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the old and the new commit of each line of a log. Raises WorkspaceError if it cannot be read."""
    content = read_file(path)
    if content is None:
        raise WorkspaceError(f"{escape_text(str(path))} is no file, or too large to be read")
    for old, new in _LOGGED.findall(content):
        yield old.decode(), new.decode()
