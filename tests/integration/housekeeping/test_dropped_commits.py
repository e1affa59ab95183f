"""Commits that no branch of a task's newest one has: `delete`, `archive` and retention lose none of them."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from orchestrator.core.events.events import ArchiveRequested, Event
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.housekeeping.service import PruneQuery
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import commit, git

FORCED, ARCHIVED, REFUSED = 204, 200, 422


class Seeded:
    """Ended tasks, of which each has one commit, and a daemon on them."""

    def __init__(self, root: Path) -> None:
        self.ended = EndedTasks(root / "data", root / "repo")
        self.daemon: InProcessDaemon | None = None

    def task(
        self, name: str, *, delivered: bool = False, days: float = 1, status: TaskStatus = TaskStatus.FAILED
    ) -> tuple[Path, str]:
        """Return the worktree of a new task, and its commit."""
        self.ended.add(name, days=days, delivered=delivered, status=status)
        worktree = self.ended.workspace.worktree(name)
        return worktree, git(worktree, "rev-parse", "HEAD")

    def look(self, name: str) -> None:
        """Have the daemon see the newest commit."""
        self.ended.workspace.facts(name, self.ended.base, self.ended.base)

    def start(self) -> InProcessDaemon:
        self.ended.close()
        self.daemon = create_daemon(self.ended.data)
        return self.daemon

    def is_kept(self, name: str, commit_: str) -> bool:
        """Return whether the commit outlives the tidying of the clone, from which it was lent."""
        clone = self.ended.workspace.clone_of(name).folder
        git(clone, "gc", "-q", "--prune=now")
        return bool(git(clone, "for-each-ref", f"--contains={commit_}"))


@pytest_asyncio.fixture
async def seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Seeded]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = Seeded(tmp_path)
    yield made
    if made.daemon:
        made.daemon.service.disk.background.close()
        made.daemon.store.close()


def detach(worktree: Path, base: str) -> str:
    git(worktree, "checkout", "-q", "--detach", base)
    return "refs/heads/feature/"


def reset(worktree: Path, base: str) -> str:
    git(worktree, "reset", "-q", "--hard", base)
    return "amended or reset"


def reset_before_anybody_looked(worktree: Path, base: str) -> str:
    commit(worktree, {"more.txt": "more"}, "More")
    return reset(worktree, base)


def amend(worktree: Path, _: str) -> str:
    git(worktree, "rm", "-q", "README.md")
    git(worktree, "commit", "-q", "--amend", "-m", "Amended")
    git(worktree, "push", "-q", str(worktree.parents[2] / "repo"), "HEAD:refs/heads/amended")
    return "amended or reset"


def remove_the_branch(worktree: Path, base: str) -> str:
    detach(worktree, base)
    git(worktree, "branch", "-D", f"feature/{worktree.name}")
    return "amended or reset"


def commit_in_a_linked_worktree(worktree: Path, _: str) -> str:
    linked = worktree.parents[2] / "linked"
    git(worktree, "push", "-q", str(worktree.parents[2] / "repo"), "HEAD:refs/heads/pushed")
    git(worktree, "worktree", "add", "-q", "--detach", str(linked))
    commit(linked, {"linked.txt": "linked"}, "Linked")
    return "worktrees/linked/HEAD"


def stash_twice(worktree: Path, base: str) -> str:
    git(worktree, "push", "-q", str(worktree.parents[2] / "repo"), "HEAD:refs/heads/pushed")
    for text in ("first", "second"):
        (worktree / "README.md").write_text(text)
        git(worktree, "stash", "-q")
    return "refs/stash, stash@{1}"


def hide_the_branch(worktree: Path, base: str) -> str:
    git(worktree, "config", "uploadpack.hideRefs", "refs/heads")
    return detach(worktree, base)


def leave_a_submodule_without_files(worktree: Path, _: str) -> str:
    git(worktree, "push", "-q", str(worktree.parents[2] / "repo"), "HEAD:refs/heads/pushed")
    git(worktree, "init", "-q", "--bare", ".git/modules/part")
    return ".git/modules/"


@pytest.mark.parametrize(
    ("act", "archived"),
    [
        (detach, ARCHIVED),
        (reset, ARCHIVED),
        (reset_before_anybody_looked, ARCHIVED),
        (amend, ARCHIVED),
        (remove_the_branch, ARCHIVED),
        (commit_in_a_linked_worktree, REFUSED),
        (stash_twice, REFUSED),
        (hide_the_branch, ARCHIVED),
        (leave_a_submodule_without_files, REFUSED),
    ],
)
async def test_a_commit_beside_the_newest_one_is_never_lost(
    seeded: Seeded, act: Callable[[Path, str], str], archived: int
) -> None:
    worktree, first = seeded.task("T-1")
    what = act(worktree, seeded.ended.base)
    async with serving(seeded.start()) as http:
        refused = await http.delete("/api/tasks/T-1")
        assert (refused.status_code, what in refused.json()["detail"]) == (409, True), refused.text
        assert worktree.is_dir()
        answer = await http.post("/api/tasks/T-1/archive")
        assert (answer.status_code, worktree.exists()) == (archived, archived == REFUSED), answer.text
        assert seeded.is_kept("T-1", first)
        assert (await http.delete("/api/tasks/T-1")).status_code == 409
        assert (await http.delete("/api/tasks/T-1?force=true")).status_code == FORCED


async def test_what_children_put_on_the_branch_of_their_parent_counts_as_its_work(seeded: Seeded) -> None:
    _, head = seeded.task("above", delivered=True)
    clone = seeded.ended.workspace.clone_of("above").folder
    joined = git(clone, "commit-tree", f"{head}^{{tree}}", "-p", head, "-m", "Of a child")
    git(clone, "update-ref", "refs/orchestrator/above/joined", joined)
    async with serving(seeded.start()) as http:
        refused = await http.delete("/api/tasks/above")
        assert (refused.status_code, "its commits are in no branch of" in refused.text) == (409, True)


async def test_what_a_reset_dropped_can_be_fetched_as_the_refusal_says(seeded: Seeded) -> None:
    worktree, first = seeded.task("T-1")
    reset(worktree, seeded.ended.base)
    async with serving(seeded.start()) as http:
        refused = (await http.delete("/api/tasks/T-1")).json()["detail"]
        fetch = refused.partition("`git ")[2].partition("`")[0].replace("'", "").split()
        git(seeded.ended.repo, *fetch)
        assert git(seeded.ended.repo, "rev-parse", f"refs/heads/T-1/{first}") == first
        assert (await http.delete("/api/tasks/T-1")).status_code == 204


async def test_what_was_dropped_on_the_way_to_a_delivered_change_does_not_keep_it(seeded: Seeded) -> None:
    for name in ("amended", "continued"):
        worktree, _ = seeded.task(name, status=TaskStatus.COMPLETED)
        git(worktree, "commit", "-q", "--amend", "-m", "Amended")
        seeded.look(name)
        delivered = git(worktree, "rev-parse", "HEAD")
        seeded.ended.workspace.deliver(name, seeded.ended.repo, f"feature/{name}", delivered)
    commit(worktree, {"later.txt": "later"}, "Later")
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    async with serving(seeded.start()) as http:
        assert (await http.delete("/api/tasks/amended")).status_code == 204
        later = await http.delete("/api/tasks/continued")
        assert (later.status_code, "amended or reset" in later.text) == (409, True)


async def test_an_archived_worktree_goes_only_as_it_was_saved(seeded: Seeded) -> None:
    worktree, _ = seeded.task("T-1")
    (worktree / "note.txt").write_text("not committed")
    workspace = seeded.ended.workspace
    saved = workspace.checkpoint("T-1", 1, "saved").whole
    assert workspace.is_saved("T-1", saved)
    (worktree / "late.txt").write_text("written while it was archived")
    assert not workspace.is_saved("T-1", saved)
    (worktree / "late.txt").unlink()
    (worktree / "build").mkdir()
    (worktree / "build/late.csv").write_text("ignored, and written then")
    assert not workspace.is_saved("T-1", saved)
    (worktree / "build/late.csv").unlink()
    assert workspace.is_saved("T-1", saved)
    commit(worktree, {}, "Committed then")
    assert not workspace.is_saved("T-1", saved)


async def test_what_is_written_while_a_task_is_archived_stays(seeded: Seeded) -> None:
    worktree, _ = seeded.task("T-1")
    daemon = seeded.start()

    def write_late(_: Task, event: Event) -> None:
        if isinstance(event, ArchiveRequested):
            (worktree / "late.txt").write_text("written after the checkpoint")

    daemon.supervisor.listen(write_late)
    async with serving(daemon) as http:
        assert (await http.post("/api/tasks/T-1/archive")).json()["status"] == "archived"
        assert (worktree / "late.txt").read_text() == "written after the checkpoint"
        refused = await http.delete("/api/tasks/T-1")
        assert (refused.status_code, "late.txt" in refused.text) == (409, True)


async def test_retention_keeps_in_the_clone_what_a_worktree_had_dropped(seeded: Seeded) -> None:
    worktree, _ = seeded.task("T-1", delivered=True, days=20)
    dropped = commit(worktree, {"later.txt": "later"}, "Later")
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    seeded.ended.age("T-1", 20)
    daemon = seeded.start()
    async with serving(daemon):
        await daemon.service.disk.prune(PruneQuery(), "retention")
        assert not worktree.exists()
        assert seeded.is_kept("T-1", dropped)


async def test_a_clone_stays_while_only_it_has_what_was_dropped_after_a_delivery(seeded: Seeded) -> None:
    worktree, _ = seeded.task("T-1", delivered=True, days=200)
    commit(worktree, {"later.txt": "later"}, "Later")
    seeded.look("T-1")
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    seeded.look("T-1")
    seeded.ended.age_clones(190)
    daemon = seeded.start()
    async with serving(daemon) as http:
        daemon.workspace.remove("T-1")
        kept = (await http.post("/api/disk/prune", json={"kinds": ["clones"]})).json()
        assert kept["removed"] == []
        assert kept["kept"][0]["reason"] == f"1 commits that {seeded.ended.repo} does not have"


async def test_very_many_branches_are_looked_at_in_time_that_grows_with_their_number(seeded: Seeded) -> None:
    worktree, first = seeded.task("T-1", delivered=True)
    dropped = commit(worktree, {"later.txt": "later"}, "Later")
    packed = "".join(f"{first} refs/heads/b{number:05}\n" for number in range(20_000))
    (worktree / ".git/packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{packed}")
    with (worktree / ".git/logs/HEAD").open("a") as log:
        log.writelines(f"{first} {dropped} A <a@b> 1700000000 +0000\tcommit: again\n" for _ in range(100_000))
    git(worktree, "reset", "-q", "--hard", "HEAD~1")
    assert seeded.ended.workspace.leftover("T-1").uncommitted == ()
    assert seeded.is_kept("T-1", dropped)
