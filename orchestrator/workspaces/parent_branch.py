"""A parent's branch while its children work: what they have put on it so far.

It is the ref `refs/orchestrator/<parent>/joined` in the clone, which children of all ages share. The parent's worktree
follows when every child has ended. Meanwhile no agent works there.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.events.commands import JoinParent
from orchestrator.core.task.task import Task
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.git import GitError
from orchestrator.workspaces.replay import replay, squashed
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What became of a child's work: `is_home`, so it is on the branch; or it was put on top of `onto` as `commit`, and
    has to be judged there first; or neither, because of `conflicts`.
    """

    onto: str
    commit: str | None
    conflicts: tuple[str, ...] = ()
    is_home: bool = False


@dataclass(frozen=True, slots=True)
class ParentBranch:
    """The branch of the task `parent`; every method blocks and may be repeated."""

    workspace: Workspace
    parent: str

    @property
    def _ref(self) -> str:
        return f"refs/orchestrator/{self.parent}/joined"

    def begin(self) -> None:
        """Take in what the parent's agents committed before children began to join. Raises WorkspaceError, GitError."""
        clone = self.workspace.clone_of(self.parent)
        if clone.ref(self._ref) is None:
            clone.take_in(self.workspace.worktree(self.parent), self.parent)

    def tip(self) -> str:
        """Return the newest commit of the branch. Raises WorkspaceError if the parent has none."""
        clone = self.workspace.clone_of(self.parent)
        found = clone.ref(self._ref) or clone.ref(f"refs/orchestrator/{self.parent}/head")
        if found is None:
            raise WorkspaceError(f"{self.parent} has no branch yet")
        return found

    def join(self, child: Task, work: JoinParent) -> Joined:
        """Put a child's commits on the branch, or its worktree on top of the branch if that has moved on since, or if
        they have to become one commit.

        Two joins of one parent must not run at once. Raises WorkspaceError and GitError.
        """
        git, tip, commit = self.workspace.clone_of(self.parent).git, self.tip(), work.commit
        if git.ask("merge-base", "--is-ancestor", commit, tip) is not None:
            return Joined(onto=tip, commit=commit, is_home=True)
        is_on_top = git.ask("merge-base", "--is-ancestor", tip, commit) is not None
        if is_on_top and (not work.squash or git.run("rev-parse", f"{commit}^@").split() == [tip]):
            git.run("update-ref", self._ref, commit)
            return Joined(onto=tip, commit=commit, is_home=True)
        base = (git.ask("merge-base", tip, commit) or work.base).strip()
        replayed = replay(git, base, squashed(git, base, commit) if work.squash else commit, tip)
        if replayed.commit is not None:
            source = child.source
            self.workspace.rebuild(child.id, Path(source.repo), source.branch, replayed.commit)
        return Joined(onto=tip, commit=replayed.commit, conflicts=replayed.conflicts)

    def lacking(self, commits: Collection[str]) -> tuple[str, ...]:
        """Return which of these commits the branch does not have, oldest first. Raises WorkspaceError and GitError."""
        self.begin()
        if not commits:
            return ()
        clone = self.workspace.clone_of(self.parent)
        try:
            newer = clone.git.run("rev-list", "--reverse", "--topo-order", *commits, "--not", self.tip())
        except GitError:
            gone = next((commit for commit in commits if not clone.has(commit)), None)
            if gone is None:
                raise
            raise WorkspaceError(
                f"the commit {gone} belongs on the branch of {self.parent}, and {clone.folder} does not have it; fetch"
                " it into there from another copy of the data folder, then try again"
            ) from None
        return tuple(commit for commit in newer.split() if commit in commits)

    def take_back(self, commits: Sequence[str]) -> tuple[str, ...]:
        """Put commits on the branch that were there, oldest first; return those whose changes it lacked.

        One that is on top of the branch stays the same commit. Raises WorkspaceError for conflicts, and GitError.
        """
        git, top, taken = self.workspace.git_of(self.parent), self.tip(), list[str]()
        for commit in commits:
            before = top
            if git.ask("merge-base", "--is-ancestor", top, commit) is not None:
                top = commit
            elif git.ask("merge-base", "--is-ancestor", commit, top) is None:
                base = git.run("merge-base", top, commit).strip()
                replayed = replay(git, base, commit, top)
                if replayed.commit is None:
                    raise WorkspaceError(
                        f"the branch of {self.parent} has lost the commit {commit}, and it conflicts with the branch in"
                        f" {', '.join(map(escape_text, replayed.conflicts[:5]))}; merge it in"
                        f" {escape_text(str(self.workspace.worktree(self.parent)))}, then try again"
                    )
                top = replayed.commit
            taken += [commit] if top != before else []
        if taken:
            git.run("update-ref", self._ref, top)
        return tuple(taken)

    def bring_home(self, parent: Task) -> None:
        """Make the parent's worktree follow the branch. Raises WorkspaceError and GitError."""
        clone = self.workspace.clone_of(self.parent)
        joined = clone.ref(self._ref)
        if joined is not None:
            self.workspace.rebuild(self.parent, Path(parent.source.repo), parent.source.branch, joined)
            clone.git.run("update-ref", "-d", self._ref)
