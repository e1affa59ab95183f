"""The daemon's clone of one repository: objects that it hashed itself, and refs that only it writes."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.git import SERVER, Git, GitError, quoted_path

FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--upload-pack", SERVER)
"""Arguments of a fetch from a local folder, to be followed by refspecs; it brings objects and the named refs, nothing
else.
"""

EARLIER = "earlier/"
"""Below a task's refs: commits that were its newest ones, or that its worktree had dropped; each is named by itself."""

_ALL = ("+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_COPY = ("+refs/remotes/origin/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
_SHA = re.compile(r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")
_FETCH_TIMEOUT = 1800.0
_TRIES = 99

Identity = tuple[str, str]
NOBODY: Identity = ("orchestrator", "orchestrator@localhost")


class WorkspaceError(OrchestratorError):
    """A task's workspace is missing or unusable; the message says what is wrong with it."""


def clone_folder_name(repository: Path) -> str:
    """Return the folder name of a repository's clone: readable, and different for every path."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", repository.name).strip("-.")[:40] or "repository"
    return f"{readable}-{hashlib.sha256(bytes(repository)).hexdigest()[:12]}"


def identity(repository: Path) -> Identity:
    """Return who commits there according to the user's own configuration, or else the orchestrator itself."""
    git = Git(folder=repository)
    name, email = git.setting("user.name"), git.setting("user.email")
    return (name, email) if name and email else NOBODY


@dataclass(frozen=True, slots=True)
class Clone:
    """A bare repository at `folder`, created by `init`."""

    folder: Path

    @property
    def git(self) -> Git:
        """Git on this clone."""
        return Git.own(self.folder)

    def init(self, like: Git) -> None:
        """Create the repository with the hash function of `like`, unless it exists."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _init(self.folder, like, "--bare")

    def has(self, commit: str) -> bool:
        """Return whether the commit, and so all of its history, is here."""
        return _SHA.fullmatch(commit) is not None and self.ref(commit + "^{commit}") is not None

    def drop_incomplete(self) -> int:
        """Remove commits whose files are not all here, and return how many there were.

        A fetch writes a commit before its files, so a copy that was made meanwhile may have the one without the others;
        then `has` would be wrong. Refs are set last, so what they name is whole.
        """
        loose = [path for path in self.folder.glob("objects/??/*") if _SHA.fullmatch(path.parent.name + path.name)]
        listed = "".join(f"{path.parent.name}{path.name}\n" for path in loose).encode()
        kinds = self.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=listed).split("\n")
        commits = [row.split(" ")[0] for row in kinds if row.endswith(" commit")]
        if not commits or self._are_whole(commits):
            return 0
        broken = [commit for commit in commits if not self._are_whole([commit])]
        for commit in broken:
            (self.folder / "objects" / commit[:2] / commit[2:]).unlink()
        return len(broken)

    def _are_whole(self, commits: list[str]) -> bool:
        """Return whether everything is here that these commits need beside what refs name."""
        named = "".join(f"{commit}\n" for commit in commits).encode()
        try:
            self.git.run("rev-list", "--objects", "--quiet", "--stdin", "--not", "--all", stdin=named)
        except GitError:
            return False
        return True

    def ref(self, name: str) -> str | None:
        """Return the object that a ref points to."""
        return self.git.ask("rev-parse", "--verify", "--quiet", name)

    def store_blob(self, content: bytes) -> str:
        """Store a file's content and return its name."""
        return self.git.run("hash-object", "-w", "--stdin", stdin=content).strip()

    def tree_with(self, base: str, files: Mapping[str, str], index: str) -> str:
        """Return the tree of a commit, or a tree, with these files set, each by its path to `<mode> <blob>`.

        Mode 0 removes one. `index` names a file of the daemon that nobody else uses meanwhile; a crash may leave it.
        """
        path = self.folder / f"index-{index}"
        leftovers = (path, path.with_name(path.name + ".lock"))
        git = Git.own(self.folder, index=path)
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        try:
            git.run("read-tree", base)
            rows = "".join(f"{entry}\t{name}\0" for name, entry in files.items())
            git.run("update-index", "-z", "--index-info", stdin=os.fsencode(rows))
            return git.run("write-tree").strip()
        finally:
            path.unlink(missing_ok=True)

    def fetch_all(self, repository: Path, task_id: str, base_commit: str) -> None:
        """Fetch the branches and tags of the user's repository, and the commit that a task begins from.

        A child's is here already, and nowhere else.
        """
        ref, is_here = f"refs/orchestrator/{task_id}/base", self.has(base_commit)
        base = () if is_here else (f"+{base_commit}:{ref}",)
        self.git.run(*FETCH, "--prune", str(repository), *_ALL, *base, timeout=_FETCH_TIMEOUT)
        if is_here:
            self.git.run("update-ref", ref, base_commit)

    def take_in(self, worktree: Path, task_id: str) -> tuple[str, str | None]:
        """Fetch HEAD of an agent's repository; return its commit and its branch, None if it is detached.

        What HEAD was before stays under a ref of its own if the commit does not follow from it. Raises WorkspaceError
        if the repository is gone, or HEAD has no commit.
        """
        place = worktree / ".git"
        if worktree.is_symlink() or place.is_symlink() or not place.is_dir():
            raise WorkspaceError(f"{escape_text(str(worktree))} is not the repository that was created for {task_id}")
        answer = self.git.run("ls-remote", "--symref", "--upload-pack", SERVER, str(place), "HEAD")
        rows = [line.rsplit("\t", 1)[0] for line in answer.splitlines() if line.endswith("\tHEAD")]
        branch = next(
            (row.removeprefix("ref: refs/heads/") for row in rows if row.startswith("ref: refs/heads/")), None
        )
        head = next((row for row in rows if _SHA.fullmatch(row)), None)
        if head is None:
            raise WorkspaceError(f"the repository in {escape_text(str(worktree))} has no commit at HEAD")
        if self.ref(f"refs/orchestrator/{task_id}/head") != head:
            self.git.run(*FETCH, str(place), head, timeout=_FETCH_TIMEOUT)
            self.move_head(task_id, head)
        return head, branch

    def move_head(self, task_id: str, commit: str) -> None:
        """Set the newest commit of a task; the one before stays under a ref of its own unless it leads to this one."""
        below = f"refs/orchestrator/{task_id}"
        before, orders = self.ref(f"{below}/head"), f"update {below}/head {commit}\n"
        if before is not None and self.git.ask("merge-base", "--is-ancestor", before, commit) is None:
            orders += f"update {below}/{EARLIER}{before} {before}\n"
        self.git.run("update-ref", "--stdin", stdin=orders.encode())

    def reserved(self, task_id: str) -> str | None:
        """Return the branch name that belongs to the task."""
        prefix = f"refs/orchestrator/{task_id}/branch/"
        found = self.git.run("for-each-ref", "--count=1", "--format=%(refname)", prefix).strip()
        return found.removeprefix(prefix) or None

    def reserve(self, task_id: str, base_commit: str, wanted: Iterator[str], user: Git) -> str:
        """Reserve the first of the `wanted` names that conflicts with no branch of the user or of another task."""
        taken = user.run("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").split("\n")
        taken += self.git.run("for-each-ref", "--format=%(refname:lstrip=4)", "refs/orchestrator/*/branch/**").split(
            "\n"
        )
        for name in wanted:
            if name.startswith("-") or self.git.ask("check-ref-format", f"refs/heads/{name}") is None:
                raise WorkspaceError(
                    f"{escape_text(name)!r} is not a valid branch name; correct the pipeline's template"
                )
            if not any(f"{name}/".startswith(f"{other}/") or other.startswith(f"{name}/") for other in taken if other):
                self.git.run("update-ref", f"refs/orchestrator/{task_id}/branch/{name}", base_commit)
                return name
        raise WorkspaceError(f"every name for the branch of {task_id} is taken; remove old branches in {user.folder}")

    def lend(self, folder: Path, commit: str, branch: str | None = None, committer: Identity = NOBODY) -> None:
        """Create a repository in the empty `folder` that borrows these objects, checked out at `commit`.

        It is on a new `branch`, or detached. It knows the clone's branches and tags, and has no remote. All these refs
        are packed into one file: every task finds the branches of all tasks before it.
        """
        _init(folder, self.git)
        place = folder / ".git"
        objects = os.path.relpath(self.folder / "objects", place / "objects")  # the data folder may be moved
        (place / "objects/info/alternates").write_text(f"{quoted_path(objects)}\n", "utf-8", "surrogateescape")
        git = Git.own(place, work_tree=folder)
        git.run("-c", "core.logAllRefUpdates=false", *FETCH, str(self.folder), *_COPY, timeout=_FETCH_TIMEOUT)
        git.run("pack-refs", "--all")
        if branch is None:
            git.run("update-ref", "--no-deref", "HEAD", commit)
        else:
            git.run("update-ref", f"refs/heads/{branch}", commit)
            git.run("symbolic-ref", "HEAD", f"refs/heads/{branch}")
        settings = zip(("user.name", "user.email"), committer, strict=True)
        for key, value in (*settings, ("commit.gpgSign", "false"), ("tag.gpgSign", "false"), ("gc.auto", "0")):
            git.run("config", "--local", key, value)
        git.run("read-tree", "--reset", "-u", commit, timeout=_FETCH_TIMEOUT)


def branch_names(branch: str, at: str) -> Iterator[str]:
    """Yield names for a branch, best first; the last have no slash, because `a/b` conflicts with `a`."""
    for stem in dict.fromkeys((branch, branch.replace("/", "-"))):
        yield stem
        if at:
            yield f"{stem}-{at}"
        yield from (f"{stem}-{number}" for number in range(2, _TRIES))


def _init(folder: Path, like: Git, *options: str) -> None:
    hashes = like.run("rev-parse", "--show-object-format").strip()
    Git(folder=folder.parent).run("init", "--quiet", "--template=", f"--object-format={hashes}", *options, str(folder))
