"""Put commits on top of another commit, in a bare repository and without a worktree.

Each commit is merged as `git cherry-pick` does it: the merge base is its own parent. `git merge-tree` finds the base by
itself, so it is given a commit made for the purpose, with the tree of the present top and that parent. No merge driver
of a repository runs, because the clone's configuration names none.
"""

from dataclasses import dataclass

from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.worktree import items

_KEPT_HEADERS = (b"author ", b"committer ", b"encoding ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The top of the replayed commits; None if one could not be applied because of conflicts in these files."""

    commit: str | None
    conflicts: tuple[str, ...] = ()


def replay(git: Git, base: str, head: str, onto: str) -> Replayed:
    """Return what becomes of the commits after `base` up to `head` on top of `onto`, oldest first, without empty ones.

    Authors, dates and messages stay, signatures do not. Needs git 2.38 or newer. Raises GitError.
    """
    top = onto
    for commit in git.run("rev-list", "--reverse", "--first-parent", f"{base}..{head}").split():
        before = git.run("rev-parse", f"{commit}^1").strip()
        stand_in = store_commit(git, _tree(git, top), before, b"author a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n\n")
        tree, conflicts = _merge(git, stand_in, commit)
        if conflicts:
            return Replayed(commit=None, conflicts=conflicts)
        if tree != _tree(git, top):
            top = store_commit(git, tree, top, _rest_of(git, commit))
    return Replayed(commit=top)


def squashed(git: Git, base: str, head: str) -> str:
    """Return one commit on top of `base` with the tree of `head`, and the message, author and dates of the last commit
    that is no merge. Raises GitError.
    """
    last = git.run("rev-list", "--no-merges", "--max-count=1", f"{base}..{head}").strip()
    return store_commit(git, _tree(git, head), base, _rest_of(git, last or head))


def _merge(git: Git, ours: str, theirs: str) -> tuple[str, tuple[str, ...]]:
    """Return the merged tree, and the files in conflict."""
    code, answer = git.answer("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
    if code not in {0, 1}:
        raise GitError("git merge-tree", code, "git 2.38 or newer is needed to put one task's work on top of another's")
    tree, *names = items(answer)
    return tree, tuple(names) if code else ()


def _tree(git: Git, commit: str) -> str:
    return git.run("rev-parse", f"{commit}^{{tree}}").strip()


def _rest_of(git: Git, commit: str) -> bytes:
    """Return a commit's author, committer, encoding and message."""
    head, _, message = git.run("cat-file", "commit", commit).encode("utf-8", "surrogateescape").partition(b"\n\n")
    kept = [line for line in head.split(b"\n") if line.startswith(_KEPT_HEADERS)]
    return b"\n".join(kept) + b"\n\n" + message


def store_commit(git: Git, tree: str, parent: str, rest: bytes) -> str:
    """Store a commit; `rest` has its author, its committer and its message as git keeps them. Return its name."""
    body = f"tree {tree}\nparent {parent}\n".encode() + rest
    return git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=body).strip()
