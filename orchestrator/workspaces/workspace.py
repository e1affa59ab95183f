"""Where a task's work happens, what was done there, and how the finished branch is delivered.

Theory of operation. Three kinds of repository, each of which trusts only the ones above it:

    <user's repository>          read by one fetch when a task starts, given one branch when it is done
      <data>/repos/<name>-<hash>/      the clone: objects hashed on arrival, refs that only the daemon writes, no agents
        <data>/worktrees/<task>/           the agent's: a repository of its own on the task's branch
        <data>/checkouts/<task>/<name>-…/  a check's: the same, detached at exactly the judged commit

A worktree borrows the clone's objects (objects/info/alternates) and shares nothing else with it: no config, hooks, refs
or index. So an agent can neither plant a program in the daemon's git (git.py) nor move another task's branch, and a
check that asks git about itself gets the truth. The daemon in turn runs nothing on an agent's repository but the
server's side of a fetch of HEAD, hashes every object again, and compares files with an index of its own, in which no
agent can mark a file as unchanged. The clone borrows nothing from the user's repository, which may be pruned at any
time; the clone itself is never pruned, so a commit once seen stays.

Refs in the clone: refs/remotes/origin/* and refs/tags/* as in the user's repository; and for each task, under
refs/orchestrator/<task>/, `base`, `branch/<name>` (which reserves the name), `head` as last seen, `earlier/<commit>`
for each that was amended or reset, and its checkpoints `<n>`. `<data>/repos/tasks/<task>` is a link to the clone that
the task uses.

Every operation may be repeated: it checks for its effect first, and what takes several steps is built aside and renamed
into place.
"""

import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.task.checkpoint import SavedWork
from orchestrator.redaction.display import escape_text
from orchestrator.storage.removal.trash import Trash
from orchestrator.workspaces.clone import Clone, WorkspaceError, branch_names, clone_folder_name, identity
from orchestrator.workspaces.delivery.user_branches import DeliveredBranch, put_branch, put_tag
from orchestrator.workspaces.documents import TreeFiles
from orchestrator.workspaces.folders import build_aside, erase
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.removal.tips import keep_commits, tips_of
from orchestrator.workspaces.repository import open_repository
from orchestrator.workspaces.worktree import Leftover, Worktree, items

MAX_DIRTY_NAMES = 50
MAX_COMMITS = 200
_PLAIN_NAME = re.compile(r"^[A-Za-z0-9](?:\.?[A-Za-z0-9_-]){0,120}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedWorkspace:
    """A task's worktree, ready for an agent; `branch` is the name that was free."""

    worktree: Path
    branch: str
    base_commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit as shown to people."""

    sha: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffStat:
    """The size of a change; binary files count no lines."""

    files: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchFacts:
    """What git says of a worktree.

    `branch` is None if HEAD is detached, `dirty` names at most 50 files that differ from HEAD (ignored ones do not
    count), `commits` are the newest 200 that `since` does not have, newest first.
    """

    head: str
    branch: str | None
    dirty: tuple[str, ...]
    commits: tuple[Commit, ...]
    changed: DiffStat


class Workspace:
    """The repositories of all tasks below one data folder; every method blocks and may be repeated."""

    def __init__(self, data_dir: Path) -> None:
        self._data = data_dir.absolute()
        self._trash = Trash(self._data)
        self.preparing = threading.Lock()
        """Held while a clone is made, or removed."""
        self._locks: dict[str, threading.Lock] = {}

    def worktree(self, task_id: str) -> Path:
        """Return where the task's worktree is, or would be."""
        return self._data / "worktrees" / _plain(task_id)

    def git_of(self, task_id: str) -> Git:
        """Return git for the clone that the task uses, for anything else that is read from its commits."""
        return self.clone_of(task_id).git

    def objects_of(self, task_id: str) -> Path | None:
        """Return the folder of objects that the task's repositories borrow; None if it has no clone yet."""
        try:
            return self.clone_of(task_id).folder / "objects"
        except WorkspaceError:
            return None

    def prepare(self, task_id: str, repo: Path, base_commit: str, branch: str, at: str = "") -> PreparedWorkspace:
        """Create a worktree of the task on a new branch from `base_commit`, or return it as it was left.

        If the user's repository or another task has the `branch`, it gets the suffix `-<at>`, then -2, -3 … A lost
        worktree is created again from the last commit seen there. Raises RepositoryError, WorkspaceError and GitError.
        """
        worktree = self.worktree(task_id)
        with self.preparing:
            clone = self._clone_with(base_commit, task_id, repo)
            name = clone.reserved(task_id)
            if name is None:
                user, _ = open_repository(repo)
                name = clone.reserve(task_id, base_commit, branch_names(branch, at), user)
            if not worktree.exists():
                begin = clone.ref(f"refs/orchestrator/{task_id}/head") or base_commit
                build_aside(worktree, lambda folder: clone.lend(folder, begin, name, identity(repo)))
        return PreparedWorkspace(worktree=worktree, branch=name, base_commit=base_commit)

    def rebuild(self, task_id: str, repo: Path, branch: str, commit: str) -> None:
        """Restore the task's worktree on its branch at `commit`. Nobody may be working there.

        Commits that it had besides stay in the clone. Raises WorkspaceError if something in it is uncommitted, and
        GitError.
        """
        clone, worktree = self.clone_of(task_id), self.worktree(task_id)
        if worktree.exists():
            with self._looking_at(task_id):
                head, _ = clone.take_in(worktree, task_id)
                dirty = self._files(task_id).uncommitted(head)
            if head == commit and not dirty:
                return
            if dirty:
                named = ", ".join(escape_text(name) for name in dirty[:5])
                raise WorkspaceError(f"{named} in {escape_text(str(worktree))} is not committed; commit or remove it")
        with self._looking_at(task_id):
            if worktree.exists():
                tips = tips_of(clone, worktree)
                keep_commits(clone, worktree, task_id, tips.dropped.union(tips.named.values()))
            clone.move_head(task_id, commit)
            erase(worktree)
        self.prepare(task_id, repo, clone.ref(f"refs/orchestrator/{task_id}/base") or commit, branch)

    def files(self, task_id: str, folder: Path) -> TreeFiles:
        """Return the files of the task's work as they are, also uncommitted ones, and those of its own folder.

        Raises WorkspaceError and GitError.
        """
        clone = self.clone_of(task_id)
        with self._looking_at(task_id):
            head, _ = clone.take_in(self.worktree(task_id), task_id)
            return TreeFiles(clone.git, self._files(task_id).tree(head), folder)

    def facts(self, task_id: str, base_commit: str, since: str) -> BranchFacts:
        """Return the state of the task's worktree; commits count from `since`, changes from `base_commit`.

        Raises WorkspaceError if the worktree or its repository is gone or broken.
        """
        clone = self.clone_of(task_id)
        with self._looking_at(task_id):
            head, branch = clone.take_in(self.worktree(task_id), task_id)
            dirty = self._files(task_id).uncommitted(head)
        log = clone.git.run("log", "-z", f"--max-count={MAX_COMMITS}", "--format=%H %s", f"{since}..{head}", "--")
        return BranchFacts(
            head=head,
            branch=branch,
            dirty=tuple(escape_text(name) for name in dirty[:MAX_DIRTY_NAMES]),
            commits=tuple(
                Commit(sha=row.split(" ")[0], subject=escape_text(row.partition(" ")[2])) for row in items(log)
            ),
            changed=self.diff_stat(task_id, base_commit, head),
        )

    def diff_stat(self, task_id: str, base_commit: str, commit: str) -> DiffStat:
        """Return how much changed between two commits."""
        flags = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        listed = self.clone_of(task_id).git.run("diff-tree", *flags, base_commit, commit, "--")
        rows = [row.split("\t", 2) for row in items(listed)]
        added, removed = (sum(int(row[column]) for row in rows if row[column] != "-") for column in (0, 1))
        return DiffStat(files=len(rows), added=added, removed=removed)

    def checkout(self, task_id: str, commit: str, name: str) -> Path:
        """Return a folder with the files of exactly this commit and nothing else but a `.git` of its own.

        The same name gives the same folder, as the check that ran in it left it; `discard` removes it.
        """
        clone = self.clone_of(task_id)
        if not clone.has(commit):
            raise WorkspaceError(f"{escape_text(commit)} is not a commit that was seen in the worktree of {task_id}")
        folder = self._data / "checkouts" / _plain(task_id) / f"{_plain(name)}-{commit[:12]}"
        with self._looking_at(task_id):
            if not folder.exists():
                build_aside(folder, lambda new: clone.lend(new, commit))
        return folder

    def discard(self, task_id: str, keep: Path | None = None) -> None:
        """Remove the task's checkouts, except the one to keep."""
        folder = self._data / "checkouts" / _plain(task_id)
        with self._looking_at(task_id):
            for checkout in list(folder.iterdir()) if folder.is_dir() else []:
                if checkout != keep:
                    erase(checkout)

    def checkpoint(self, task_id: str, n: int, message: str) -> SavedWork:
        """Save everything uncommitted (untracked files too, ignored ones not) under refs/orchestrator/<task>/<n>.

        HEAD, index and files stay as they are. If an earlier checkpoint has saved exactly the same, its commit is used.
        """
        clone, ref = self.clone_of(task_id), f"refs/orchestrator/{_plain(task_id)}/{n}"
        with self._looking_at(task_id):
            head, _ = clone.take_in(self.worktree(task_id), task_id)
            tree = self._files(task_id).tree(head)
        if tree == clone.ref(f"{head}^{{tree}}"):
            return SavedWork(head=head)
        commit = self._saved_before(task_id, tree, head)
        if commit is None:
            commit = clone.git.run("commit-tree", tree, "-p", head, stdin=message.encode()).strip()
        clone.git.run("update-ref", ref, commit)
        size = self.diff_stat(task_id, head, commit)
        return SavedWork(head=head, commit=commit, files=size.files, added=size.added, removed=size.removed)

    def leftover(self, task_id: str) -> Leftover:
        """Return what no commit in the task's worktree has, with names to be shown, and what leads to its commits.

        Its newest commit is taken in, and so are those that only git's logs name.

        Raises WorkspaceError, GitError and OSError where not everything can be looked at.
        """
        clone = self.clone_of(task_id)
        with self._looking_at(task_id):
            head, _ = clone.take_in(self.worktree(task_id), task_id)
            found = self._files(task_id).leftover(head)
            tips = tips_of(clone, self.worktree(task_id))
            keep_commits(clone, self.worktree(task_id), task_id, tips.dropped)
        uncommitted, unsaved = (tuple(map(escape_text, names)) for names in (found.uncommitted, found.unsaved))
        return replace(found, uncommitted=uncommitted, unsaved=unsaved, tips=tips)

    def forget(self, task_id: str, keep: Collection[int]) -> None:
        """Drop the work of checkpoints that are older than the newest one to keep and not to be kept themselves."""
        gone = [n for n, _ in self._checkpoint_refs(task_id) if n not in keep and n < max(keep, default=0)]
        orders = "".join(f"delete refs/orchestrator/{task_id}/{n}\n" for n in gone)
        if orders:
            self.clone_of(task_id).git.run("update-ref", "--stdin", stdin=orders.encode())

    def bring_to(self, task_id: str, commit: str) -> None:
        """Make the files of the worktree those of `commit`; its branch stays. No process may be working there.

        The present files must have been saved before. Raises WorkspaceError and GitError; then nothing was changed.
        """
        clone = self.clone_of(task_id)
        with self._looking_at(task_id):
            head, _ = clone.take_in(self.worktree(task_id), task_id)
            files = self._files(task_id)
            files.bring_to(files.tree(head), f"{commit}^{{tree}}")

    def deliver(self, task_id: str, repo: Path, branch: str, commit: str) -> DeliveredBranch:
        """Deliver `commit` to the user's repository as the branch `branch`; nothing else there is changed.

        An existing branch is only moved forward from where this task put it, and never while it is checked out. What
        the task delivered before its data folder was restored from a backup, and did again since, is kept as
        `<branch>-before-restore-<commit>`. Raises DeliveryError if it points elsewhere, and RepositoryError.
        """
        return put_branch(task_id, self.clone_of(task_id), repo, branch, commit)

    def subjects(self, task_id: str, base_commit: str, commit: str) -> list[str]:
        """Return the subjects of the commits since the base, oldest first, at most 200."""
        range_ = f"{base_commit}..{commit}"
        said = self.clone_of(task_id).git.run("log", "--reverse", "--no-merges", "--format=%s", range_)
        return [line for line in said.splitlines() if line][:MAX_COMMITS]

    def tree_with(self, task_id: str, commit: str, name: str, content: bytes, mode: str) -> str:
        """Return the tree of a commit with one file set to this content."""
        clone = self.clone_of(task_id)
        return clone.tree_with(commit, {name: f"{mode} {clone.store_blob(content)}"}, f"release-{_plain(task_id)}")

    def set_tag(self, repo: Path, tag: str, commit: str) -> None:
        """Set a new tag in the user's repository, to which the commit was delivered before; an existing one stays.

        Raises DeliveryError if it points to another commit.
        """
        put_tag(repo, tag, commit)

    def restore(self, task_id: str, repo: Path, branch: str, commit: str) -> DeliveredBranch:
        """Deliver any commit that was seen, under a branch name that a person may have chosen. Raises as `deliver`."""
        clone = self.clone_of(task_id)
        if not clone.has(commit):
            raise WorkspaceError(f"{escape_text(commit)} is not a commit that was seen in the worktree of {task_id}")
        plain = branch.isprintable() and not branch.startswith("-")
        if not plain or clone.git.ask("check-ref-format", f"refs/heads/{branch}") is None:
            raise WorkspaceError(f"{escape_text(branch)!r} is not a valid branch name; give another one")
        return self.deliver(task_id, repo, branch, commit)

    def is_saved(self, task_id: str, saved: str) -> bool:
        """Return whether the worktree has nothing besides what the commit of a checkpoint has.

        Raises WorkspaceError, GitError and OSError.
        """
        clone = self.clone_of(task_id)
        with self._looking_at(task_id):
            head, _ = clone.take_in(self.worktree(task_id), task_id)
            files = self._files(task_id)
            if files.tree(head) != clone.ref(f"{saved}^{{tree}}") or files.leftover(head).unsaved:
                return False
        return clone.git.ask("merge-base", "--is-ancestor", head, saved) is not None

    def remove(self, task_id: str) -> None:
        """Move the task's worktree and checkouts into the trash; its commits stay in the clone."""
        with self.giving_up(task_id) as paths:
            self._trash.discard(paths)

    @contextmanager
    def giving_up(self, task_id: str) -> Iterator[list[Path]]:
        """Yield the folders of the task's worktree and checkouts, which nobody else looks at meanwhile."""
        with self._looking_at(task_id):
            self._index(task_id).unlink(missing_ok=True)
            yield [self.worktree(task_id), self._data / "checkouts" / _plain(task_id)]

    def _clone_with(self, base_commit: str, task_id: str, repo: Path) -> Clone:
        """Return the task's clone with the commit to begin from, fetched from the user's repository if need be."""
        link = self._link(task_id)
        if link.is_symlink() and self.clone_of(task_id).ref(f"refs/orchestrator/{task_id}/base") == base_commit:
            return self.clone_of(task_id)
        user, _ = open_repository(repo)
        clone = Clone(self._data / "repos" / clone_folder_name(user.folder.resolve()))
        clone.init(user)
        clone.fetch_all(user.folder, task_id, base_commit)
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(clone.folder, link.parent))
        return clone

    def clone_of(self, task_id: str) -> Clone:
        """Return the daemon's clone that the task uses. Raises WorkspaceError if it has none."""
        link = self._link(task_id)
        if not link.is_symlink():
            raise WorkspaceError(f"{task_id} has no workspace yet")
        return Clone(self._data / "repos" / link.readlink().name)

    def _link(self, task_id: str) -> Path:
        return self._data / "repos/tasks" / _plain(task_id)

    def _index(self, task_id: str) -> Path:
        return self._data / "repos/indexes" / _plain(task_id)

    def _looking_at(self, task_id: str) -> threading.Lock:
        """Lock held while the daemon's index of a worktree is used, or one of its folders is built or removed."""
        return self._locks.setdefault(task_id, threading.Lock())

    def _files(self, task_id: str) -> Worktree:
        return Worktree(clone=self.clone_of(task_id), folder=self.worktree(task_id), index=self._index(task_id))

    def _saved_before(self, task_id: str, tree: str, head: str) -> str | None:
        """Return the commit of an earlier checkpoint with exactly these files on this head."""
        wanted = f"{tree} {head}"
        rows = (row.partition(" ") for _, row in self._checkpoint_refs(task_id))
        return next((commit for commit, _, had in rows if had == wanted), None)

    def _checkpoint_refs(self, task_id: str) -> list[tuple[int, str]]:
        """Yield number, and commit, tree and parent, of every checkpoint that saved work."""
        wanted = "--format=%(refname:lstrip=3) %(objectname) %(tree) %(parent)"
        listed = self.clone_of(task_id).git.run("for-each-ref", wanted, f"refs/orchestrator/{_plain(task_id)}/")
        rows = (row.partition(" ") for row in listed.splitlines())
        return [(int(name), rest) for name, _, rest in rows if name.isdecimal()]


def _plain(name: str) -> str:
    """Return the name if it is safe as a part of a path and of a ref. Raises WorkspaceError."""
    if not _PLAIN_NAME.fullmatch(name) or name.endswith(".lock"):
        raise WorkspaceError(
            f"{escape_text(name)!r} cannot be used in a path; use letters, digits, dots, dashes and underscores"
        )
    return name
