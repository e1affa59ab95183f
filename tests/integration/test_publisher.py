"""What may go wrong while a change leaves, with a forge on loopback and a bare repository behind it."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import clock
from orchestrator.bundled import Kind, bundled
from orchestrator.core import commands as do
from orchestrator.core import outside
from orchestrator.core.model import Task
from orchestrator.core.publication import Publication, Reply
from orchestrator.core.redact import Redactor, parse_rules
from orchestrator.forge import remote
from orchestrator.forge.opening import Host
from orchestrator.publisher import AT_ONCE, Published, Publisher, Publishing
from orchestrator.release import Release
from orchestrator.workspace import Workspace
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted

BRANCH = "feature/T-1"


class Stage:
    """A task whose change is ready to leave."""

    def __init__(self, folder: Path, server: ForgeServer) -> None:
        repo, bare, self.server = folder / "repo", folder / "bare.git", server
        base = repository(repo)
        git(folder, "init", "--quiet", "--bare", str(bare))
        git(repo, "remote", "add", "origin", str(bare))
        workspace = Workspace(folder / "data")
        made = workspace.prepare("T-1", repo, base, BRANCH)
        self.worktree = made.worktree
        commit(made.worktree, {"a.txt": "done\n"})
        self.head = workspace.facts("T-1", base, base).head
        server.branches[BRANCH] = self.head
        rules = bundled(Kind.CONFIG) / "redaction.toml"
        self.publisher = Publisher(
            workspace=workspace,
            release=Release(workspace),
            hosts=lambda: {"forge.test": Host(kind=remote.Kind.GITHUB, api=server.api, token=TOKEN)},
            redactor=Redactor(parse_rules(rules.read_text(encoding="utf-8"), str(rules))),
            quarantined=folder / "quarantine",
            tell_tracker=self.tell,
            clock=clock.now,
        )
        self.task = submitted(
            "T-1",
            folder=str(folder),
            repo=str(repo),
            base_commit=base,
            publication=Publication(forge=f"https://forge.test/{REPO}"),
        )

    @staticmethod
    async def tell(_: Task, __: str, ___: str | None) -> str:
        return ""

    def after(self, command: Publishing, task: Task | None = None) -> Published:
        return asyncio.run(self.publisher.carry_out(task or self.task, command))

    def opened(self, *replies: Reply, reviewers: tuple[str, ...] = ()) -> outside.PullRequestOpened:
        order = do.OpenPullRequest(branch=BRANCH, commit=self.head, round=1, replies=replies)
        reviewed = replace(self.task, publication=replace(self.task.publication, reviewers=reviewers))
        opened = self.after(order, reviewed)
        assert isinstance(opened, outside.PullRequestOpened)
        return opened


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer(github_api.answer) as server:
        yield server


@pytest.fixture
def stage(tmp_path: Path, server: ForgeServer) -> Stage:
    return Stage(tmp_path, server)


def test_a_comment_that_was_deleted_and_a_reviewer_who_left_hold_nothing_up(stage: Stage) -> None:
    number = stage.opened().number
    there = stage.server.says("alice", "rename it", ("a.txt", 1))
    gone, kept = Reply(comment_id="thread:999", mark="a"), Reply(comment_id=f"thread:{there.id}", mark="b")
    assert stage.opened(gone, kept, reviewers=("stranger", "alice")).number == number
    answers = [said for said in stage.server.pulls[-1].threads if said.root == there.id]
    assert ["Addressed in" in said.body for said in answers] == [True]


def test_who_may_not_write_is_not_asked_for_another_review(stage: Stage) -> None:
    number = stage.opened().number
    stage.server.reviews("alice", "CHANGES_REQUESTED")
    stage.server.reviews("mallory", "CHANGES_REQUESTED")
    seen = stage.after(do.LookAtPullRequest(number=number, round=1, seen=()))
    assert isinstance(seen, outside.PullRequestSeen)
    assert seen.reviewers == ("alice",)


def test_what_was_merged_without_the_last_round_is_proposed_anew(stage: Stage) -> None:
    first = stage.opened()
    pull = stage.server.pulls[-1]
    pull.status, pull.merge_commit, pull.head_sha = "merged", "c" * 40, "d" * 40
    second = stage.opened()
    assert second.number != first.number
    assert stage.opened().number == second.number


def test_what_was_merged_with_the_last_round_is_not_proposed_again(stage: Stage) -> None:
    first = stage.opened()
    stage.server.pulls[-1].status = "merged"
    assert stage.opened().number == first.number


def test_a_commit_whose_message_is_no_utf_8_can_be_merged(stage: Stage) -> None:
    commit(stage.worktree, {"b.txt": "x"}, "Zo\udceb: @alice \u202e fixes #1")
    stage.head = stage.publisher.workspace.facts("T-1", stage.task.base_commit, stage.task.base_commit).head
    stage.server.branches[BRANCH] = stage.head
    number = stage.opened().number
    stage.server.reviews("alice", "APPROVED")
    stage.server.runs("unit", "SUCCESS")
    reviewed = replace(stage.task, publication=replace(stage.task.publication, head=stage.head))
    merged = stage.after(do.MergePullRequest(number=number, head=stage.head), reviewed)
    assert isinstance(merged, outside.PullRequestMerged)
    (message,) = stage.server.merge_messages
    assert "@alice" not in message
    assert "fixes #1" not in message


def test_forges_that_never_answer_hold_up_nothing_else(tmp_path: Path) -> None:
    asked, answered = threading.Semaphore(0), threading.Event()

    def silent(_: ForgeServer, __: Asked) -> Answer:
        asked.release()
        answered.wait()
        return Answer(status=404)

    async def others_go_on(stage: Stage) -> str:
        look = do.LookAtPullRequest(number=1, round=1, seen=())
        looks = [asyncio.ensure_future(stage.publisher.carry_out(stage.task, look)) for _ in range(2 * AT_ONCE)]
        for _ in range(AT_ONCE):
            while not asked.acquire(blocking=False):  # noqa: ASYNC110 - it is a thread that tells
                await asyncio.sleep(0.01)
        try:
            return await asyncio.to_thread(lambda: "at work")
        finally:
            answered.set()
            await asyncio.gather(*looks)

    with ForgeServer(silent) as server:
        assert asyncio.run(others_go_on(Stage(tmp_path, server))) == "at work"
