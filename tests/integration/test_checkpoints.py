"""Checkpoints with real git, a real store and a real loop: bursts, retention, pins, and restored work."""

import asyncio
import json
import resource
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.checkpoint import KEPT, Checkpoint, Reason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.executor import CommandTurns
from orchestrator.daemon.recovery import recover
from orchestrator.storage.journal import lines
from orchestrator.storage.records import NoSuchCheckpoint, StoreError
from orchestrator.storage.restore import NoStateLeft, NothingLost
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints, NotAtRest, NothingSaved
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.delivery.user_branches import DeliveryError
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.recording_executor import RecordingExecutor
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import full_pipeline, submitted
from tests.fakes.waiting import running
from tests.fakes.world import START

PATIENCE = 60.0
TASK = "T-1"


class Hands(RecordingExecutor):
    """An executor that only saves checkpoints, as the dispatcher does."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        super().__init__()
        self.checkpoints = checkpoints
        self.working: set[asyncio.Task[None]] = set()

    def checkpoint(self, task: Task, reason: Reason) -> None:
        if self.checkpoints.ask(task, reason):
            self.working.add(asyncio.get_running_loop().create_task(self.checkpoints.take(task.id)))


class CheckpointHarness:
    """A task in the worktree of a real repository with its loop running."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.base = repository(self.repo, {"a.txt": "one\n", ".gitignore": "*.log\n"})
        self.workspace = Workspace(folder / "data")
        self.store = FolderStore(folder / "data")
        self.inbox, self.turns = Inbox(), CommandTurns()
        self.checkpoints = Checkpoints(self.workspace, self.store, self.inbox, self.turns.turn, lambda: START)
        self.hands = Hands(self.checkpoints)
        lookups = TaskLookups(clock=lambda: START, pipeline_of=lambda _: full_pipeline(), model_of=lambda _: "")
        self.supervisor = Supervisor(self.store, self.hands, self.inbox, lookups, Capacity())
        self.supervisor.listen(self.checkpoints.on_decision)
        self.worktree = self.workspace.worktree(TASK)

    @property
    def task(self) -> Task:
        return self.supervisor.tasks[TASK]

    @property
    def folder(self) -> Path:
        return self.store.files.path_of(TASK)

    async def begin(self) -> None:
        """Return the task with its worktree, waiting for its first agent."""
        await self.inbox.submit(
            events.TaskSubmitted(
                at=START, task=submitted(TASK, folder=str(self.folder), repo=str(self.repo), base_commit=self.base)
            )
        )
        await self.inbox.settled()
        made = await asyncio.to_thread(self.workspace.prepare, TASK, self.repo, self.base, "feature/T-1")
        await self.told(
            events.WorkspaceReady(at=START, worktree=str(made.worktree), branch=made.branch, head=self.base)
        )

    async def told(self, *facts: events.Event) -> None:
        for fact in facts:
            self.inbox.post(TASK, fact)
        await self.settled()

    async def settled(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.inbox.settled()
            while working := [one for one in self.hands.working if not one.done()]:
                await asyncio.wait(working)
                await self.inbox.settled()

    async def taken(self, reason: Reason = Reason.INTERVAL) -> Checkpoint:
        """Save one more checkpoint."""
        self.hands.checkpoint(self.task, reason)
        await self.settled()
        return self.kept()[0]

    def kept(self) -> list[Checkpoint]:
        return self.checkpoints.kept(self.task)

    def refs(self) -> set[int]:
        """Return the numbers of the checkpoints that have a ref."""
        listed = self.workspace.git_of(TASK).run(
            "for-each-ref", "--format=%(refname:lstrip=3)", f"refs/orchestrator/{TASK}"
        )
        return {int(name) for name in listed.split() if name.isdecimal()}

    def write(self, text: str) -> None:
        (self.worktree / "a.txt").write_text(text)


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[CheckpointHarness]:
    harness = CheckpointHarness(folder)
    with closing(harness.store):
        async with running(harness.supervisor.run()):
            await harness.begin()
            yield harness


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_checkpoint_that_cannot_be_taken_is_left_out_and_the_next_one_is_taken(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        with no_file_can_be_opened():
            assert harness.checkpoints.ask(harness.task, Reason.INTERVAL)
            await harness.checkpoints.take(TASK)
        assert harness.kept() == []
        assert (await harness.taken()).work is not None


async def test_a_checkpoint_has_all_that_recovery_needs_and_no_value_of_the_environment(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        run = harness.folder / "agents/0"
        run.mkdir(parents=True)
        (run / "spec.json").write_text(json.dumps({"env": {"TOKEN": "hunter2", "PATH": "/bin", "E\x1b": ""}}))
        (harness.folder / "plan.md").write_text("## Step 1\n")
        harness.write("work\n")
        one = await harness.taken(Reason.FREEZE)
        path = harness.folder / f"checkpoints/{one.number:06d}.json"
        assert path.stat().st_mode & 0o777 == 0o600
        assert (one.reason, one.environment, one.artifacts) == (
            Reason.FREEZE,
            ("E\\x1b", "PATH", "TOKEN"),
            ("plan.md",),
        )
        assert one.work is not None
        assert (one.work.head, one.work.files, one.work.added, one.work.removed) == (harness.base, 1, 1, 1)
        assert harness.refs() == {one.number}
        document = orjson.loads(path.read_bytes())
        assert "hunter2" not in path.read_text()
        assert document["state"]["seq"] == harness.task.seq
        assert list(lines(harness.folder))[-1]["trigger"] == "CheckpointSaved"


async def test_a_burst_makes_one_checkpoint_and_requests_meanwhile_one_more(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        for reason in (Reason.ERROR, Reason.PHASE, Reason.LIMIT):
            harness.hands.checkpoint(harness.task, reason)
        await harness.settled()
        assert [one.reason for one in harness.kept()] == [Reason.LIMIT]
        harness.hands.checkpoint(harness.task, Reason.ERROR)
        await asyncio.sleep(0)  # the first one is in progress now
        harness.hands.checkpoint(harness.task, Reason.PHASE)
        harness.hands.checkpoint(harness.task, Reason.USER)
        await harness.settled()
        assert [one.reason for one in harness.kept()] == [Reason.USER, Reason.ERROR, Reason.LIMIT]


async def test_decisions_that_need_a_checkpoint_get_it(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        look = next(command for _, command in harness.hands.asked if isinstance(command, do.LookAtGate))
        await harness.told(events.CommandFailed(at=START, command=look, reason="no room"))
        assert harness.task.status is TaskStatus.BLOCKED
        assert [one.reason for one in harness.kept()] == [Reason.ERROR]


async def test_the_newest_ten_and_the_pinned_ones_are_kept_with_their_refs(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        numbers = []
        for count in range(KEPT + 4):
            harness.write(f"{count}\n")
            numbers.append((await harness.taken()).number)
            if count == 1:
                assert harness.checkpoints.pin(harness.task, numbers[1], pinned=True).pinned
        kept = {one.number for one in harness.kept()}
        assert kept == {numbers[1], *numbers[-KEPT:]}
        await harness.taken()
        assert harness.refs() >= {one.number for one in harness.kept()}
        assert len(harness.refs()) <= KEPT + 2, "the refs of the others are removed with the next one"
        assert not harness.checkpoints.pin(harness.task, numbers[1], pinned=False).pinned
        harness.store.release(TASK)
        assert harness.store.load(TASK).task == harness.task


async def test_unchanged_work_is_kept_as_the_same_commit(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.write("work\n")
        first, second = await harness.taken(), await harness.taken()
        assert first.work == second.work
        assert first.number != second.number


async def test_a_worktree_that_cannot_be_read_costs_only_the_work(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        (harness.worktree / ".git").rename(harness.worktree / "moved")
        one = await harness.taken()
        assert one.work is None
        with pytest.raises(NothingSaved):
            await harness.checkpoints.restore(harness.task, one.number)


async def test_a_lost_worktree_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.write("half done\n")
        saved = await harness.taken()
        shutil.rmtree(harness.worktree)
        assert harness.checkpoints.restore_worktree(harness.task) == f"checkpoint {saved.number}"
        assert (harness.worktree / "a.txt").read_text() == "half done\n"
        assert harness.checkpoints.restore_worktree(harness.task) is None


async def test_a_lost_worktree_never_goes_back_behind_a_commit_that_was_seen(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.write("half done\n")
        await harness.taken()
        done = commit(harness.worktree, {"a.txt": "done\n", "b.txt": "more\n"})
        harness.workspace.facts(TASK, harness.base, harness.base)
        shutil.rmtree(harness.worktree)
        assert harness.checkpoints.restore_worktree(harness.task) == f"commit {done}"
        assert (harness.worktree / "a.txt").read_text() == "done\n"
        assert git(harness.worktree, "status", "--porcelain") == ""


async def test_a_damaged_checkpoint_is_ignored_and_affects_no_other(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        first, second = await harness.taken(), await harness.taken()
        path = harness.folder / f"checkpoints/{first.number:06d}.json"
        path.write_bytes(path.read_bytes().replace(b"interval", b"Interval"))
        (harness.folder / "checkpoints/000999.json").symlink_to("/etc/passwd")
        assert [one.number for one in harness.kept()] == [second.number]
        for act in (harness.checkpoints.found, lambda task, n: harness.checkpoints.pin(task, n, pinned=True)):
            with pytest.raises(NoSuchCheckpoint, match="checkpoints list T-1"):
                act(harness.task, first.number)


async def test_a_disk_that_refuses_checkpoints_blocks_nothing_else(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        (harness.folder / "checkpoints").touch()
        harness.hands.checkpoint(harness.task, Reason.INTERVAL)
        await harness.settled()
        assert harness.kept() == []
        assert list(lines(harness.folder))[-1]["trigger"] == "CheckpointSaved"


async def test_saved_work_is_restored_as_a_branch_and_nothing_else_of_the_repository_changes(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.write("work\n")
        (harness.worktree / "new.txt").write_text("untracked\n")
        one = await harness.taken()
        before = git(harness.repo, "for-each-ref"), git(harness.repo, "status", "--porcelain")
        done = await harness.checkpoints.restore(harness.task, one.number)
        assert done.branch == f"orchestrator/T-1/checkpoint-{one.number}"
        assert git(harness.repo, "show", f"{done.branch}:new.txt") == "untracked"
        assert git(harness.repo, "rev-parse", f"{done.branch}^") == harness.base
        assert (await harness.checkpoints.restore(harness.task, one.number)).already
        git(harness.repo, "branch", "-D", done.branch)
        assert (git(harness.repo, "for-each-ref"), git(harness.repo, "status", "--porcelain")) == before
        assert (await harness.checkpoints.restore(harness.task, one.number, "mine/now")).branch == "mine/now"


@pytest.mark.parametrize("name", ["-d", "a..b", "a b", "x\n", "a.lock", "\x1b", "@{"])
async def test_an_invalid_branch_name_is_refused(tmp_path: Path, name: str) -> None:
    async with at_work(tmp_path) as harness:
        one = await harness.taken()
        with pytest.raises(WorkspaceError, match="is not a valid branch name"):
            await harness.checkpoints.restore(harness.task, one.number, name)


async def test_a_branch_of_the_user_is_never_moved(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        one = await harness.taken()
        mine = commit(harness.repo, {"a.txt": "mine\n"})
        with pytest.raises(DeliveryError, match="has a branch main already"):
            await harness.checkpoints.restore(harness.task, one.number, "main")
        assert git(harness.repo, "rev-parse", "main") == mine


async def test_work_replaced_in_place_is_kept_for_good(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.write("then\n")
        one = await harness.taken()
        harness.write("now\n")
        (harness.worktree / "new.txt").write_text("now too\n")
        await harness.inbox.request(TASK, events.PauseRequested(at=START))
        before = await harness.checkpoints.restore_in_place(harness.task, one.number)
        assert (harness.worktree / "a.txt").read_text() == "then\n"
        assert not (harness.worktree / "new.txt").exists()
        assert (before.pinned, before.reason) == (True, Reason.USER)
        await harness.checkpoints.restore_in_place(harness.task, before.number)
        assert (harness.worktree / "a.txt").read_text() == "now\n"
        assert (harness.worktree / "new.txt").read_text() == "now too\n"


async def test_restoring_in_place_is_refused_while_an_agent_lives_or_may_start(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        one = await harness.taken()
        harness.write("now\n")
        with pytest.raises(NotAtRest, match="blocked, or paused with its agent ended"):
            await harness.checkpoints.restore_in_place(harness.task, one.number)
        assert (harness.worktree / "a.txt").read_text() == "now\n"


async def test_a_resume_that_comes_first_takes_precedence_over_a_restore(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        one = await harness.taken()
        harness.write("now\n")
        paused = await harness.inbox.request(TASK, events.PauseRequested(at=START))
        async with harness.turns.turn(TASK):
            restoring = asyncio.create_task(harness.checkpoints.restore_in_place(paused, one.number))
            await harness.told(events.ResumeRequested(at=START, blocked_by=PauseReason.USER))
            assert not harness.task.is_paused
        with pytest.raises(NotAtRest):
            await restoring
        assert (harness.worktree / "a.txt").read_text() == "now\n"


async def test_work_that_could_not_be_saved_is_not_replaced(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        one = await harness.taken()
        paused = await harness.inbox.request(TASK, events.PauseRequested(at=START))
        (harness.worktree / ".git").rename(harness.worktree / "moved")
        harness.write("now\n")
        with pytest.raises(NothingSaved, match="nothing was changed"):
            await harness.checkpoints.restore_in_place(paused, one.number)
        assert (harness.worktree / "a.txt").read_text() == "now\n"


async def test_a_checkpoint_of_a_task_that_ended_meanwhile_leaves_nothing_behind(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.hands.checkpoint(harness.task, Reason.INTERVAL)
        await asyncio.sleep(0)  # the first one is in progress now
        await harness.inbox.request(TASK, events.CancelRequested(at=START))
        await harness.settled()
        assert TASK not in harness.supervisor.tasks
        assert list(lines(harness.folder))[-1]["trigger"] == "CancelRequested"


def lost_journal(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()


def damaged_files(folder: Path) -> None:
    (folder / "journal.jsonl").write_bytes(b"nonsense\n")
    (folder / "state.json").write_bytes(b"")


@pytest.mark.parametrize("damage", [lost_journal, damaged_files])
async def test_a_task_whose_journal_is_lost_continues_from_the_newest_remaining_state(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    async with at_work(tmp_path) as harness:
        await harness.taken()
        before = harness.task
    damage(harness.folder)
    store = FolderStore(tmp_path / "data")
    with pytest.raises(StoreError):
        store.load(TASK)
    done = recover(store, TASK, {"full": full_pipeline()}, START)
    assert done.task == before
    assert done.source == ("state.json" if damage is lost_journal else f"checkpoints/{before.seq - 1:06d}.json")
    assert done.set_aside[-1] == "state.json.lost-1"
    loaded = store.load(TASK, keep_open=True)
    assert (loaded.task, loaded.foreign) == (before, None)
    after = replace(before, seq=before.seq + 1, feedback=("on it goes",))
    store.commit(before, after, events.AlarmRang(at=START))
    store.release(TASK)
    assert store.load(TASK).task == after
    assert [line["seq"] for line in lines(harness.folder)] == [before.seq, after.seq]
    with pytest.raises(NothingLost):
        recover(store, TASK, {"full": full_pipeline()}, START)
    store.close()


async def test_without_any_state_the_progress_of_the_task_is_reported_and_nothing_is_changed(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        last = commit(harness.worktree, {"a.txt": "two\n"})
        await harness.taken()
        assert harness.workspace.git_of(TASK).run("rev-parse", "refs/orchestrator/T-1/head").strip() == last
        shutil.rmtree(harness.folder / "checkpoints")
    damaged_files(harness.folder)
    names = sorted(path.name for path in harness.folder.iterdir())
    store = FolderStore(tmp_path / "data")
    with pytest.raises(NoStateLeft, match="had reached IMPLEMENTATION, with 1 commits; `git fetch "):
        recover(store, TASK, {"full": full_pipeline()}, START)
    assert sorted(path.name for path in harness.folder.iterdir()) == names
    store.close()
