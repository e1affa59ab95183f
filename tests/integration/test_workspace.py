"""Worktrees, checkpoints, checkouts and delivery, with real repositories and an untrusted agent in the worktree."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from orchestrator.core.task.checkpoint import SavedWork
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.delivery.user_branches import DeliveryError
from orchestrator.workspaces.git import GitError
from orchestrator.workspaces.workspace import DiffStat, PreparedWorkspace, Workspace
from tests.fakes.repositories import Trap, commit, git, repository


class Stage:
    """A user's repository and one task of it in a worktree."""

    def __init__(self, folder: Path, name: str = "repo") -> None:
        self.folder = folder
        self.repo = folder / name
        self.base = repository(self.repo, {"a.txt": "one\n", "inner/b.txt": "b\n", ".gitignore": "*.log\n"})
        self.workspace = Workspace(folder / "data")
        self.prepared = self.prepare()
        self.worktree = self.prepared.worktree

    def prepare(self, task_id: str = "T-1", branch: str = "feature/T-1", at: str = "") -> PreparedWorkspace:
        return self.workspace.prepare(task_id, self.repo, self.base, branch, at)

    def head(self) -> str:
        return self.workspace.facts("T-1", self.base, self.base).head

    def dirty(self) -> set[str]:
        return set(self.workspace.facts("T-1", self.base, self.base).dirty)

    def deliver(self) -> bool:
        return self.workspace.deliver("T-1", self.repo, self.prepared.branch, self.head()).already


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_worktree_is_on_a_new_branch_and_a_repeated_request_returns_it(stage: Stage) -> None:
    assert git(stage.worktree, "symbolic-ref", "HEAD") == "refs/heads/feature/T-1"
    assert git(stage.worktree, "status", "--porcelain") == ""
    (stage.worktree / "a.txt").write_text("work\n")
    assert stage.prepare() == stage.prepared
    assert Workspace(stage.folder / "data").prepare("T-1", stage.repo, stage.base, "other") == stage.prepared
    assert (stage.worktree / "a.txt").read_text() == "work\n"


def test_an_existing_worktree_does_not_need_the_users_repository(stage: Stage) -> None:
    shutil.rmtree(stage.repo)
    assert stage.prepare() == stage.prepared
    git(stage.worktree, "fsck", "--strict")


def test_a_lost_worktree_is_restored_at_the_last_commit_seen(stage: Stage) -> None:
    last = commit(stage.worktree, {"a.txt": "work\n"})
    assert stage.head() == last
    shutil.rmtree(stage.worktree)
    assert stage.prepare() == stage.prepared
    assert git(stage.worktree, "rev-parse", "feature/T-1") == last


def test_an_incomplete_worktree_is_created_again(stage: Stage) -> None:
    shutil.rmtree(stage.worktree)
    half = stage.worktree.with_name(".T-1.new")
    (half / ".git").mkdir(parents=True)
    (half / "litter").touch()
    stage.prepare()
    assert not (stage.worktree / "litter").exists()
    assert stage.dirty() == set()


def test_a_used_name_gets_the_time_and_then_a_number(stage: Stage) -> None:
    assert stage.prepare("T-2", at="20260102_030405").branch == "feature/T-1-20260102_030405"
    assert stage.prepare("T-3").branch == "feature/T-1-2"
    git(stage.repo, "branch", "feature/T-1-3")
    assert stage.prepare("T-4").branch == "feature/T-1-4"


def test_a_branch_that_conflicts_with_a_folder_of_branches_is_avoided(stage: Stage) -> None:
    git(stage.repo, "branch", "fix")
    assert stage.prepare("T-2", "fix/it").branch == "fix-it"


@pytest.mark.parametrize("name", ["-d", "a..b", "a b", "x\n", "", "a/.lock", "ü\x1b"])
def test_a_name_that_git_would_refuse_is_refused(stage: Stage, name: str) -> None:
    with pytest.raises(WorkspaceError, match="is not a valid branch name"):
        stage.prepare("T-2", name)


@pytest.mark.parametrize("task_id", ["", "..", "a/b", "-a", ".a", "a..b", "a.lock", "a\n", "a b"])
def test_a_task_id_that_is_not_a_plain_name_is_refused(stage: Stage, task_id: str) -> None:
    with pytest.raises(WorkspaceError):
        stage.prepare(task_id)


@pytest.mark.parametrize(
    "name", ["with space", "ünïcode", "new\nline", "-dash", 'quo"te\\', "per%41cent", "a:b", "$HOME;x"]
)
def test_folders_of_any_name_work_throughout(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    stage = Stage(tmp_path / name, name)
    last = commit(stage.worktree, {name: "x\n"})
    assert stage.workspace.facts("T-1", stage.base, stage.base).changed == DiffStat(files=1, added=1, removed=0)
    checkout = stage.workspace.checkout("T-1", last, "unit_test")
    assert (checkout / name).read_text() == "x\n"
    assert stage.deliver() is False
    assert git(stage.repo, "rev-parse", "feature/T-1") == last


def test_the_branches_of_earlier_tasks_take_one_file_in_a_worktree(stage: Stage) -> None:
    def files(task: str) -> int:
        return len(everything(stage.workspace.worktree(task) / ".git"))

    stage.prepare("T-2", "feature/T-2")
    orders = "".join(f"create refs/heads/feature/E-{number} {stage.base}\n" for number in range(200))
    subprocess.run(["git", "-C", stage.repo, "update-ref", "--stdin"], input=orders.encode(), check=True)
    stage.prepare("T-3", "feature/T-3")
    third = stage.workspace.worktree("T-3")
    assert git(third, "rev-parse", "origin/feature/E-199") == stage.base
    assert files("T-3") == files("T-2")


def test_commits_are_made_in_the_name_of_the_user(tmp_path: Path) -> None:
    repository(tmp_path / "repo")
    git(tmp_path / "repo", "config", "user.name", "Ada")
    git(tmp_path / "repo", "config", "user.email", "ada@example.org")
    base = git(tmp_path / "repo", "rev-parse", "HEAD")
    made = Workspace(tmp_path / "data").prepare("T-1", tmp_path / "repo", base, "work")
    assert git(made.worktree, "config", "user.name") == "Ada"
    assert git(made.worktree, "config", "user.email") == "ada@example.org"


def test_facts_have_the_commits_the_changes_and_the_uncommitted_files(stage: Stage) -> None:
    first = commit(stage.worktree, {"a.txt": "one\ntwo\n"}, "first\x07")
    second = commit(stage.worktree, {"b.bin": "\0"}, "second")
    (stage.worktree / "inner/b.txt").unlink()
    (stage.worktree / "new\nname").write_text("x")
    (stage.worktree / "ignored.log").touch()
    facts = stage.workspace.facts("T-1", stage.base, first)
    assert (facts.head, facts.branch) == (second, "feature/T-1")
    assert [(one.sha, one.subject) for one in facts.commits] == [(second, "second")]
    assert set(facts.dirty) == {"inner/b.txt", "new\\nname"}
    assert facts.changed == DiffStat(files=2, added=1, removed=0)
    assert [one.subject for one in stage.workspace.facts("T-1", stage.base, stage.base).commits] == [
        "second",
        "first\\x07",
    ]


def test_at_most_fifty_uncommitted_names_are_reported(stage: Stage) -> None:
    for number in range(120):
        (stage.worktree / f"{number}").touch()
    assert len(stage.dirty()) == 50


def test_a_detached_head_has_no_branch(stage: Stage) -> None:
    git(stage.worktree, "checkout", "--quiet", "--detach")
    assert stage.workspace.facts("T-1", stage.base, stage.base).branch is None


def test_an_agent_cannot_hide_a_change_in_its_own_index(stage: Stage) -> None:
    git(stage.worktree, "update-index", "--assume-unchanged", "a.txt")
    git(stage.worktree, "update-index", "--skip-worktree", "inner/b.txt")
    (stage.worktree / ".git/info").mkdir(exist_ok=True)
    (stage.worktree / ".git/info/exclude").write_text("*\n")
    for name in ("a.txt", "inner/b.txt", "new.txt"):
        (stage.worktree / name).write_text("hidden\n")
    assert git(stage.worktree, "status", "--porcelain") == ""
    assert stage.dirty() == {"a.txt", "inner/b.txt", "new.txt"}


def test_the_daemon_runs_nothing_that_an_agent_plants(stage: Stage, tmp_path: Path) -> None:
    last = commit(stage.worktree, {".gitattributes": "* filter=trap diff=trap\n", "a.txt": "two\n"})
    inner = stage.worktree / "module"
    commit_of_inner = repository(inner)
    git(stage.worktree, "update-index", "--add", "--cacheinfo", f"160000,{commit_of_inner},module")
    (stage.worktree / ".gitmodules").write_text(
        '[submodule "module"]\n\tpath = module\n\turl = ext::evil\n\tignore = none\n'
    )
    git(stage.worktree, "commit", "--quiet", "--all", "--message", "a module")
    trap = Trap(tmp_path / "trap")
    for place in (stage.worktree / ".git", inner / ".git"):
        trap.set_in(place)
    (inner / "a.txt").write_text("changed\n")
    (stage.worktree / "a.txt").write_text("three\n")

    facts = stage.workspace.facts("T-1", stage.base, last)
    assert len(facts.commits) == 1
    assert stage.workspace.checkpoint("T-1", 1, "now").commit is not None
    stage.workspace.bring_to("T-1", facts.head)
    stage.workspace.checkout("T-1", facts.head, "unit_test")
    stage.workspace.discard("T-1")
    assert stage.deliver() is False
    stage.prepare()
    stage.workspace.remove("T-1")
    assert trap.sprung == ""


def test_no_program_named_by_the_users_repository_runs(stage: Stage, tmp_path: Path) -> None:
    trap = Trap(tmp_path / "trap")
    trap.set_in(stage.repo / ".git")
    stage.prepare("T-2")
    commit(stage.worktree, {"a.txt": "two\n"})
    stage.deliver()
    assert trap.sprung == ""


def test_an_agent_that_breaks_its_repository_is_told_so(stage: Stage) -> None:
    (stage.worktree / ".git/HEAD").write_text("nonsense")
    with pytest.raises(GitError):
        stage.head()
    shutil.rmtree(stage.worktree / ".git")
    (stage.worktree / ".git").symlink_to(stage.repo / ".git")
    with pytest.raises(WorkspaceError, match="not the repository that was created"):
        stage.head()


def test_a_worktree_replaced_by_a_link_is_refused(stage: Stage) -> None:
    shutil.rmtree(stage.worktree)
    stage.worktree.symlink_to(stage.repo)
    with pytest.raises(WorkspaceError):
        stage.head()


def test_a_forged_object_is_not_trusted(stage: Stage) -> None:
    last = commit(stage.worktree, {"a.txt": "honest\n"})
    blob = git(stage.worktree, "rev-parse", "HEAD:a.txt")
    (stage.worktree / "evil.txt").write_text("forged\n")
    other = git(stage.worktree, "hash-object", "-w", "evil.txt")
    objects = stage.worktree / ".git/objects"
    target = objects / blob[:2] / blob[2:]
    target.chmod(0o600)
    target.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with pytest.raises(GitError):
        stage.head()
    assert git(stage.worktree, "rev-parse", "HEAD") == last


def test_a_checkpoint_saves_everything_and_changes_nothing(stage: Stage) -> None:
    (stage.worktree / "a.txt").write_text("half done\n")
    git(stage.worktree, "add", "a.txt")
    (stage.worktree / "a.txt").write_text("more than half done\n")
    (stage.worktree / "inner/b.txt").unlink()
    (stage.worktree / "new.sh").write_text("x")
    (stage.worktree / "new.sh").chmod(0o755)
    (stage.worktree / "link").symlink_to("/etc/passwd")
    (stage.worktree / "noise.log").touch()
    before = everything(stage.worktree)
    saved = stage.workspace.checkpoint("T-1", 7, "in the middle").commit
    assert everything(stage.worktree) == before
    clone = stage.workspace.git_of("T-1")
    assert clone.run("rev-parse", "refs/orchestrator/T-1/7").strip() == saved
    assert clone.run("rev-parse", f"{saved}^").strip() == stage.base
    assert clone.run("show", f"{saved}:a.txt") == "more than half done\n"
    rows = [line.partition("\t") for line in clone.run("ls-tree", "-r", f"{saved}").splitlines()]
    listed = {name: entry for entry, _, name in rows}
    assert set(listed) == {".gitignore", "a.txt", "new.sh", "link"}
    assert listed["new.sh"].startswith("100755")
    assert listed["link"].startswith("120000")


def test_a_checkpoint_of_unchanged_work_is_the_same_commit_and_one_of_nothing_has_none(stage: Stage) -> None:
    assert stage.workspace.checkpoint("T-1", 1, "nothing") == SavedWork(head=stage.base)
    (stage.worktree / "a.txt").write_text("work\n")
    saved = stage.workspace.checkpoint("T-1", 1, "work")
    assert saved == SavedWork(head=stage.base, commit=saved.commit, files=1, added=1, removed=1)
    assert stage.workspace.checkpoint("T-1", 2, "the same") == saved
    (stage.worktree / "a.txt").write_text("more work\n")
    assert stage.workspace.checkpoint("T-1", 3, "more").commit != saved.commit


def test_the_same_work_on_another_commit_is_another_checkpoint(stage: Stage) -> None:
    (stage.worktree / "a.txt").write_text("work\n")
    first = stage.workspace.checkpoint("T-1", 1, "work")
    git(stage.worktree, "commit", "--quiet", "--allow-empty", "--message", "empty")
    second = stage.workspace.checkpoint("T-1", 2, "work")
    assert (first.head, first.commit) != (second.head, second.commit)
    assert stage.workspace.git_of("T-1").run("rev-parse", f"{second.commit}^").strip() == second.head


def test_only_older_checkpoints_without_a_pin_are_removed(stage: Stage) -> None:
    for number in range(1, 6):
        (stage.worktree / "a.txt").write_text(f"{number}\n")
        stage.workspace.checkpoint("T-1", number, "work")
    stage.workspace.forget("T-1", {2, 4})
    refs = stage.workspace.git_of("T-1").run("for-each-ref", "--format=%(refname:lstrip=3)", "refs/orchestrator/T-1")
    assert {ref for ref in refs.split() if ref.isdecimal()} == {"2", "4", "5"}, "a newer one is not recorded yet"
    stage.workspace.forget("T-1", ())


def test_a_worktree_is_reset_to_a_checkpoint_and_its_branch_stays(stage: Stage) -> None:
    (stage.worktree / "a.txt").write_text("then\n")
    (stage.worktree / "inner/b.txt").unlink()
    (stage.worktree / "new").mkdir()
    (stage.worktree / "new/link").symlink_to("../a.txt")
    then = stage.workspace.checkpoint("T-1", 1, "then").whole
    shutil.rmtree(stage.worktree / "new")
    (stage.worktree / "new").write_text("a file now\n")
    (stage.worktree / "noise.log").write_text("ignored\n")
    last = commit(stage.worktree, {"a.txt": "later\n", "inner/b.txt": "again\n"})
    (stage.worktree / "a.txt").write_text("now\n")
    now = stage.workspace.checkpoint("T-1", 2, "now").whole
    git_folder = everything(stage.worktree / ".git")
    stage.workspace.bring_to("T-1", then)
    assert (stage.worktree / "a.txt").read_text() == "then\n"
    assert not (stage.worktree / "inner/b.txt").exists()
    assert (stage.worktree / "new/link").is_symlink()
    assert (stage.worktree / "noise.log").read_text() == "ignored\n"
    assert everything(stage.worktree / ".git") == git_folder, "neither its index nor its branch is changed"
    assert stage.head() == last
    stage.workspace.bring_to("T-1", now)
    assert (stage.worktree / "a.txt").read_text() == "now\n"
    assert (stage.worktree / "new").read_text() == "a file now\n"


@pytest.mark.parametrize("at", ["kept/precious", "kept", "kept/precious/deep"])
def test_work_that_is_in_no_checkpoint_is_never_overwritten(stage: Stage, at: str) -> None:
    (stage.worktree / "kept").mkdir()
    (stage.worktree / "kept/precious").write_text("then\n")
    then = stage.workspace.checkpoint("T-1", 1, "then").whole
    shutil.rmtree(stage.worktree / "kept")
    (stage.worktree / ".gitignore").write_text("kept\n")
    (stage.worktree / at).parent.mkdir(parents=True, exist_ok=True)
    (stage.worktree / at).write_text("ignored, so nowhere else\n")
    with pytest.raises(WorkspaceError, match="would be overwritten"):
        stage.workspace.bring_to("T-1", then)
    assert (stage.worktree / at).read_text() == "ignored, so nowhere else\n"
    assert (stage.worktree / ".gitignore").read_text() == "kept\n"


def test_a_file_too_large_to_be_saved_stays_as_it_is(stage: Stage) -> None:
    then = stage.workspace.checkpoint("T-1", 1, "then").whole
    with (stage.worktree / "huge").open("wb") as huge:
        huge.truncate(1024**3)
    stage.workspace.bring_to("T-1", then)
    assert (stage.worktree / "huge").stat().st_size == 1024**3


def test_a_checkpoint_leaves_out_what_cannot_be_saved(stage: Stage) -> None:
    os.mkfifo(stage.worktree / "fifo")
    (stage.worktree / "a.txt").unlink()
    os.mkfifo(stage.worktree / "a.txt")
    repository(stage.worktree / "nested")
    with (stage.worktree / "sparse").open("wb") as huge:
        huge.truncate(1024**3)
    (stage.worktree / "small").write_text("x")
    saved = stage.workspace.checkpoint("T-1", 1, "odd").commit
    names = stage.workspace.git_of("T-1").run("ls-tree", "-r", "--name-only", str(saved)).split()
    assert names == [".gitignore", "a.txt", "inner/b.txt", "small"]


def test_a_checkpoint_survives_a_folder_that_became_a_file_and_vice_versa(stage: Stage) -> None:
    shutil.rmtree(stage.worktree / "inner")
    (stage.worktree / "inner").write_text("a file now\n")
    (stage.worktree / "a.txt").unlink()
    (stage.worktree / "a.txt").mkdir()
    (stage.worktree / "a.txt/x").touch()
    saved = stage.workspace.checkpoint("T-1", 1, "turned about").commit
    names = stage.workspace.git_of("T-1").run("ls-tree", "-r", "--name-only", str(saved)).split()
    assert names == [".gitignore", "a.txt/x", "inner"]


def test_a_lock_left_by_a_power_cut_does_not_stop_the_daemon(stage: Stage) -> None:
    stage.head()
    (stage.folder / "data/repos/indexes/T-1.lock").touch()
    assert stage.dirty() == set()


def test_a_checkout_has_the_commits_files_and_no_others(stage: Stage) -> None:
    judged = commit(stage.worktree, {"a.txt": "judged\n"})
    (stage.worktree / "a.txt").write_text("not judged\n")
    (stage.worktree / "extra.txt").touch()
    git(stage.worktree, "tag", "not-mine")
    stage.head()
    checkout = stage.workspace.checkout("T-1", judged, "1-unit_test")
    assert stage.workspace.checkout("T-1", judged, "1-unit_test") == checkout
    files = {name for name in everything(checkout) if not name.startswith(".git/")}
    assert files == {"a.txt", "inner/b.txt", ".gitignore"}
    assert (checkout / "a.txt").read_text() == "judged\n"
    assert git(checkout, "rev-parse", "HEAD") == judged
    assert git(checkout, "status", "--porcelain") == ""
    assert not checkout.is_relative_to(stage.worktree)
    (checkout / "locked").mkdir(mode=0o500)
    stage.workspace.discard("T-1")
    stage.workspace.discard("T-1")
    assert not checkout.exists()


def test_only_a_commit_that_was_seen_can_be_checked_out(stage: Stage) -> None:
    unseen = commit(stage.worktree, {"a.txt": "unseen\n"})
    for name in (unseen, "HEAD", "--help", "0" * 40):
        with pytest.raises(WorkspaceError):
            stage.workspace.checkout("T-1", name, "unit_test")


def test_the_checkouts_of_earlier_checks_are_discarded_and_the_current_one_stays(stage: Stage) -> None:
    earlier = stage.workspace.checkout("T-1", stage.base, "1-unit_test")
    latest = stage.workspace.checkout("T-1", stage.base, "2-unit_test")
    stage.workspace.discard("T-1", keep=latest)
    assert not earlier.exists()
    assert (latest / "a.txt").exists()
    assert stage.worktree.exists()


@pytest.mark.parametrize("name", ["..", "../worktrees", "/", "", "T-1/.."])
def test_an_invalid_task_name_discards_nothing(stage: Stage, name: str) -> None:
    with pytest.raises(WorkspaceError):
        stage.workspace.discard(name)
    assert stage.worktree.exists()


def test_a_check_can_affect_only_its_own_repository(stage: Stage) -> None:
    checkout = stage.workspace.checkout("T-1", stage.base, "unit_test")
    commit(checkout, {"a.txt": "by the check\n"})
    git(checkout, "branch", "--force", "feature/T-1")
    git(checkout, "gc", "--quiet", "--prune=now")
    assert stage.head() == stage.base
    assert git(stage.worktree, "rev-parse", "feature/T-1") == stage.base


def test_a_delivery_makes_one_branch_and_changes_nothing_else(stage: Stage) -> None:
    (stage.repo / "a.txt").write_text("the user is at work\n")
    before = {name: body for name, body in everything(stage.repo).items() if not name.startswith(".git/objects")}
    last = commit(stage.worktree, {"a.txt": "two\n"})
    assert stage.deliver() is False
    after = {name: body for name, body in everything(stage.repo).items() if not name.startswith(".git/objects")}
    assert set(after) - set(before) == {".git/refs/heads/feature/T-1", ".git/logs/refs/heads/feature/T-1"}
    assert {name: after[name] for name in before} == before
    assert git(stage.repo, "rev-parse", "feature/T-1") == last
    git(stage.repo, "fsck", "--strict")
    assert stage.deliver() is True


def test_a_delivery_into_a_bare_repository_works(tmp_path: Path) -> None:
    base = repository(tmp_path / "seed")
    git(tmp_path, "clone", "--quiet", "--bare", "seed", "bare.git")
    workspace = Workspace(tmp_path / "data")
    made = workspace.prepare("T-1", tmp_path / "bare.git", base, "work")
    last = commit(made.worktree, {"a.txt": "two\n"})
    workspace.facts("T-1", base, base)
    workspace.deliver("T-1", tmp_path / "bare.git", "work", last)
    assert git(tmp_path / "bare.git", "rev-parse", "work") == last


def test_a_branch_of_that_name_at_another_commit_is_left_alone(stage: Stage) -> None:
    git(stage.repo, "branch", "feature/T-1")
    commit(stage.worktree, {"a.txt": "two\n"})
    with pytest.raises(DeliveryError, match=r"git branch -m feature/T-1 feature/T-1-old"):
        stage.deliver()
    assert git(stage.repo, "rev-parse", "feature/T-1") == stage.base


def test_a_branch_that_cannot_be_created_states_why_and_where_the_work_is(stage: Stage) -> None:
    git(stage.repo, "branch", "feature/T-1/sub")
    last = commit(stage.worktree, {"a.txt": "two\n"})
    with pytest.raises(DeliveryError, match=f"the work itself is safe at {last}"):
        stage.deliver()


def test_removing_keeps_the_commits(stage: Stage) -> None:
    last = commit(stage.worktree, {"a.txt": "two\n"})
    stage.head()
    (stage.worktree / "locked").mkdir()
    (stage.worktree / "locked/x").touch()
    (stage.worktree / "locked").chmod(stat.S_IRUSR)
    checkout = stage.workspace.checkout("T-1", last, "unit_test")
    stage.workspace.remove("T-1")
    stage.workspace.remove("T-1")
    assert not stage.worktree.exists()
    assert not checkout.exists()
    assert stage.workspace.deliver("T-1", stage.repo, "feature/T-1", last).commit == last


def test_a_repository_that_hashes_by_sha256_works_too(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "--quiet", "--object-format=sha256")
    base = commit(tmp_path / "repo", {"a.txt": "one\n"})
    workspace = Workspace(tmp_path / "data")
    made = workspace.prepare("T-1", tmp_path / "repo", base, "work")
    last = commit(made.worktree, {"a.txt": "two\n"})
    assert workspace.facts("T-1", base, base).head == last
    workspace.checkout("T-1", last, "unit_test")
    assert workspace.deliver("T-1", tmp_path / "repo", "work", last).already is False
