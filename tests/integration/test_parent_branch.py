"""A parent's branch, on which the work of its children comes together, with real git."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.events.commands import JoinParent
from orchestrator.core.task.task import Task
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.parent_branch import Joined, ParentBranch
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted


class Family:
    """A parent P whose children put their commits on its branch."""

    def __init__(self, root: Path) -> None:
        self.repo = root / "repo"
        base = repository(self.repo, {"shared.txt": "one\ntwo\nthree\n"})
        self.workspace = Workspace(root / "data")
        self.workspace.prepare("P", self.repo, base, "feature/p")
        self.branch = ParentBranch(self.workspace, "P")
        self.first = base

    def task(self, name: str) -> Task:
        task = submitted()
        return replace(
            task, id=name, source=replace(task.source, repo=str(self.repo), branch=f"feature/{name.lower()}")
        )

    def child(self, name: str) -> str:
        """Prepare a child's worktree from where its parent's branch is; return that commit."""
        base = self.branch.tip()
        self.workspace.prepare(name, self.repo, base, f"feature/{name.lower()}")
        return base

    def work(self, name: str, files: dict[str, str]) -> str:
        """Commit something in a task's worktree, and have the daemon see it."""
        done = commit(self.workspace.worktree(name), files, name)
        self.workspace.facts(name, done, done)
        return done

    def join(self, name: str, base: str, done: str, squash: bool = False) -> Joined:
        work = JoinParent(parent="P", base=base, commit=done, squash=squash)
        return self.branch.join(self.task(name), work)

    def lose(self, *names: str) -> None:
        """Let the branch be as it was before these children joined, as a copy of the folder may have it."""
        base = self.workspace.clone_of(names[0]).ref(f"refs/orchestrator/{names[0]}/base")
        assert base is not None
        self.workspace.git_of("P").run("update-ref", "refs/orchestrator/P/joined", base)

    def log(self, what: str, form: str = "%s") -> list[str]:
        """What git tells of the commits after the parent's first one, oldest first."""
        git_dir = self.workspace.worktree("A")
        return git(git_dir, "log", "--reverse", f"--format={form}", f"{self.first}..{what}").splitlines()

    def files(self, name: str) -> set[str]:
        return {path.name for path in self.workspace.worktree(name).iterdir()} - {".git"}


@pytest.fixture
def family(tmp_path: Path) -> Family:
    made = Family(tmp_path)
    made.branch.begin()
    return made


def test_children_begin_from_what_their_parent_committed_before(tmp_path: Path) -> None:
    family = Family(tmp_path)
    first = commit(family.workspace.worktree("P"), {"first.txt": "1\n"})
    with pytest.raises(WorkspaceError, match="P has no branch yet"):
        family.branch.tip()
    family.branch.begin()
    assert family.child("A") == first
    assert family.files("A") == {"first.txt", "shared.txt"}


def test_the_first_child_moves_the_branch_and_the_next_is_put_on_top_of_it_first(family: Family) -> None:
    base = family.child("A")
    assert family.child("B") == base
    a, b = family.work("A", {"a.txt": "a\n"}), family.work("B", {"b.txt": "b\n"})
    assert family.join("A", base, a).is_home
    assert family.join("A", base, a).is_home
    moved = family.join("B", base, b)
    assert (moved.is_home, moved.onto, moved.conflicts) == (False, a, ())
    assert family.files("B") == {"a.txt", "b.txt", "shared.txt"}
    assert family.join("B", moved.onto, moved.commit or "").is_home
    assert family.branch.tip() == moved.commit


def test_a_replay_that_was_interrupted_is_done_again(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a, b = family.work("A", {"a.txt": "a\n"}), family.work("B", {"b.txt": "b\n"})
    family.join("A", base, a)
    once, again = family.join("B", base, b), family.join("B", base, b)
    assert once == again
    assert git(family.workspace.worktree("B"), "rev-parse", "HEAD") == once.commit
    assert git(family.workspace.worktree("B"), "symbolic-ref", "--short", "HEAD") == "feature/b"


def test_conflicts_are_named_and_leave_the_childs_worktree_as_it_is(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a, b = family.work("A", {"shared.txt": "of A\n"}), family.work("B", {"shared.txt": "of B\n"})
    family.join("A", base, a)
    assert family.join("B", base, b) == Joined(onto=a, commit=None, conflicts=("shared.txt",))
    assert git(family.workspace.worktree("B"), "rev-parse", "HEAD") == b


def test_what_a_child_has_not_committed_is_never_overwritten(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a, b = family.work("A", {"a.txt": "a\n"}), family.work("B", {"b.txt": "b\n"})
    family.join("A", base, a)
    (family.workspace.worktree("B") / "notes.txt").write_text("mine\n")
    with pytest.raises(WorkspaceError, match=r"notes\.txt in .* is not committed"):
        family.join("B", base, b)
    assert (family.workspace.worktree("B") / "notes.txt").read_text() == "mine\n"


def test_the_parents_worktree_follows_when_its_children_have_ended(family: Family) -> None:
    base = family.child("A")
    done = family.work("A", {"a.txt": "a\n"})
    family.join("A", base, done)
    assert family.files("P") == {"shared.txt"}
    for _ in range(2):
        family.branch.bring_home(family.task("P"))
        assert family.files("P") == {"a.txt", "shared.txt"}
        assert git(family.workspace.worktree("P"), "rev-parse", "HEAD") == done


def test_a_commit_that_the_branch_lost_is_put_on_it_again_as_it_was(family: Family) -> None:
    base = family.child("A")
    a = family.work("A", {"a.txt": "a\n"})
    family.join("A", base, a)
    onto = family.child("B")
    b = family.work("B", {"b.txt": "b\n"})
    family.join("B", onto, b)
    assert family.branch.lacking([b, a]) == ()
    family.lose("A", "B")
    assert family.branch.lacking([b, a]) == (a, b)
    assert family.branch.take_back((a, b)) == (a, b)
    assert family.branch.tip() == b
    assert family.branch.lacking([b, a]) == ()


def test_a_lost_commit_is_put_on_top_of_what_came_after_it_once(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a, b = family.work("A", {"a.txt": "a\n"}), family.work("B", {"b.txt": "b\n"})
    family.join("A", base, a)
    family.lose("A")
    family.join("B", base, b)
    assert family.branch.take_back(family.branch.lacking([a, b])) == (a,)
    top = family.branch.tip()
    assert family.log(top) == ["B", "A"]
    assert family.branch.take_back(family.branch.lacking([a, b])) == ()
    family.branch.bring_home(family.task("P"))
    assert family.branch.take_back(family.branch.lacking([a, b])) == ()
    assert family.files("P") == {"a.txt", "b.txt", "shared.txt"}
    assert family.branch.tip() == top


def test_a_lost_commit_that_conflicts_is_left_to_a_person_whose_merge_counts(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a, b = family.work("A", {"shared.txt": "of A\n"}), family.work("B", {"shared.txt": "of B\n"})
    family.join("B", base, b)
    family.branch.bring_home(family.task("P"))
    with pytest.raises(WorkspaceError, match=rf"lost the commit {a}, .* in shared\.txt; merge it in .*worktrees/P"):
        family.branch.take_back(family.branch.lacking([a, b]))
    git(family.workspace.worktree("P"), "merge", "--quiet", "--strategy-option=ours", "-m", "Both", a)
    assert family.branch.lacking([a, b]) == ()


def test_a_commit_that_is_gone_altogether_is_named(family: Family) -> None:
    with pytest.raises(WorkspaceError, match=f"{'5' * 40} belongs on the branch of P, .* does not have it"):
        family.branch.lacking(["5" * 40])


def reworked(family: Family, name: str) -> str:
    """Let a child commit three times, the last time as somebody else; return its last commit."""
    family.work(name, {f"{name}.txt": "1\n"})
    family.work(name, {f"{name}.txt": "2\n"})
    folder = family.workspace.worktree(name)
    (folder / f"{name}.txt").write_text("3\n")
    git(folder, "commit", "-qam", f"{name} as a whole\n\nAnd why.", "--author=Ada <ada@example.org>")
    done = git(folder, "rev-parse", "HEAD").strip()
    family.workspace.facts(name, done, done)
    return done


def test_squashed_work_comes_home_as_one_commit_with_its_last_message_and_author(family: Family) -> None:
    base = family.child("A")
    done = reworked(family, "A")
    squashed = family.join("A", base, done, squash=True)
    assert (squashed.is_home, squashed.onto, squashed.conflicts) == (False, base, ())
    assert family.branch.tip() == base, "it is judged first"
    assert family.join("A", base, done, squash=True) == squashed, "a crash before that was noted changes nothing"
    one = squashed.commit or ""
    assert git(family.workspace.worktree("A"), "rev-parse", "HEAD").strip() == one
    for _ in range(2):
        assert family.join("A", squashed.onto, one, squash=True).is_home
    assert family.branch.tip() == one
    assert family.log(one, "%an %s %b") == ["Ada A as a whole And why."]
    assert git(family.workspace.worktree("A"), "diff", "--stat", done, one) == ""


def test_one_commit_on_top_of_the_branch_is_home_as_it_is(family: Family) -> None:
    base = family.child("A")
    done = family.work("A", {"a.txt": "a\n"})
    assert family.join("A", base, done, squash=True) == Joined(onto=base, commit=done, is_home=True)


def test_squashed_work_is_put_on_top_of_what_came_home_before(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a = family.work("A", {"a.txt": "a\n"})
    done = reworked(family, "B")
    family.join("A", base, a, squash=True)
    moved = family.join("B", base, done, squash=True)
    assert (moved.is_home, moved.onto) == (False, a)
    assert family.join("B", moved.onto, moved.commit or "", squash=True).is_home
    assert family.log(family.branch.tip()) == ["A", "B as a whole"]
    assert family.files("B") == {"a.txt", "B.txt", "shared.txt"}


def test_a_merge_made_by_an_agent_comes_home_as_one_commit_of_its_own_work(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    a = family.work("A", {"shared.txt": "of A\n"})
    b = family.work("B", {"shared.txt": "of B\n", "b.txt": "b\n"})
    family.join("A", base, a, squash=True)
    assert family.join("B", base, b, squash=True).conflicts == ("shared.txt",)
    folder = family.workspace.worktree("B")
    git(folder, "fetch", "-q", str(family.workspace.worktree("A")), "HEAD")
    git(folder, "merge", "-q", "-X", "theirs", "FETCH_HEAD", "-m", "Merge the others")
    merged = git(folder, "rev-parse", "HEAD").strip()
    family.workspace.facts("B", merged, merged)
    squashed = family.join("B", base, merged, squash=True)
    assert (squashed.is_home, squashed.conflicts) == (False, ())
    assert family.join("B", squashed.onto, squashed.commit or "", squash=True).is_home
    assert family.log(family.branch.tip()) == ["A", "B"]


def test_squashed_work_that_changes_nothing_adds_no_commit(family: Family) -> None:
    base = family.child("A")
    family.work("A", {"shared.txt": "other\n"})
    undone = family.work("A", {"shared.txt": "one\ntwo\nthree\n"})
    nothing = family.join("A", base, undone, squash=True)
    assert (nothing.commit, nothing.is_home) == (base, False)
    assert family.join("A", base, base, squash=True).is_home
    assert family.branch.tip() == base


def test_work_that_was_rebased_before_the_branch_moved_on_again_brings_only_its_own_commits(family: Family) -> None:
    base = family.child("A")
    family.child("B")
    family.child("C")
    a = family.work("A", {"shared.txt": "of A\n"})
    family.join("A", base, a)
    b = family.workspace.worktree("B")
    git(b, "fetch", "-q", str(family.workspace.worktree("A")), "HEAD")
    git(b, "reset", "-q", "--hard", "FETCH_HEAD")  # as its agent does, who was told of a conflict
    done = family.work("B", {"b.txt": "b\n"})
    c = family.join("C", base, family.work("C", {"c.txt": "c\n"}))
    changed = commit(family.workspace.worktree("C"), {"shared.txt": "of C\n"}, "C again")
    family.workspace.facts("C", changed, changed)
    assert family.join("C", c.onto, changed).is_home
    moved = family.join("B", base, done)
    assert (moved.conflicts, moved.onto) == ((), changed)
    assert family.log(moved.commit or "") == ["A", "C", "C again", "B"]
