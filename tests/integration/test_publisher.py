"""Failures while a change is published, with a forge on loopback and a bare repository behind it."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import clock
from orchestrator.core.decide.publishing import newest_marks
from orchestrator.core.events import commands as do
from orchestrator.core.events import publish_events
from orchestrator.core.task.progress import StageRecord
from orchestrator.core.task.publication import Publication, Reply
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.errors import SOON, Unreachable
from orchestrator.integrations.forges import remote
from orchestrator.integrations.forges.open_forge import Host
from orchestrator.integrations.publishing.merge_policy import UNSETTLED
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.publisher import AT_ONCE, PublishCommand, Publisher
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.families.tickets.family import TICKETS
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.workspaces.evaluation.secret_scan import SecretLeaked
from orchestrator.workspaces.workspace import Workspace
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted

BRANCH = "feature/T-1"


class Stage:
    """A task whose change is ready to be published."""

    def __init__(self, folder: Path, server: ForgeServer) -> None:
        repo, bare, self.server = folder / "repo", folder / "bare.git", server
        self.bare, self.files, self.told = bare, FolderTaskFiles(folder / "tasks"), list[tuple[str, str | None]]()
        base = repository(repo)
        git(folder, "init", "--quiet", "--bare", str(bare))
        git(repo, "remote", "add", "origin", str(bare))
        workspace = Workspace(folder / "data")
        made = workspace.prepare("T-1", repo, base, BRANCH)
        self.worktree = made.worktree
        commit(made.worktree, {"a.txt": "done\n"})
        self.head = workspace.facts("T-1", base, base).head
        server.branches[BRANCH] = self.head
        files = self.files
        files.create("T-1")
        rules = bundled(Kind.CONFIG) / "redaction.toml"
        self.workspace = workspace
        outbound = Outbound(
            workspace=workspace,
            files=files,
            family_of=lambda _: TICKETS,
            hosts=lambda: {"forge.test": Host(kind=remote.ForgeKind.GITHUB, api=server.api, token=TOKEN)},
            redactor=Redactor(parse_rules(rules.read_text(encoding="utf-8"), str(rules))),
            quarantined=folder / "quarantine",
            clock=clock.now,
        )
        self.publisher = Publisher(outbound=outbound, tell_tracker=self.tell)
        self.task = submitted(
            "T-1",
            folder=str(files.path_of("T-1")),
            repo=str(repo),
            base_commit=base,
            publication=Publication(forge=f"https://forge.test/{REPO}"),
        )

    def proposed(self) -> Task:
        """Return the task after its change was proposed."""
        return replace(self.task, publication=replace(self.task.publication, head=self.head))

    def seen(self, task: Task | None = None, **told: tuple[str, ...] | bool) -> publish_events.PullRequestSeen:
        """Poll the newest pull request."""
        number = self.server.pulls[-1].number
        look = do.LookAtPullRequest(number=number, **{"round": 1, "seen": (), **told})  # type: ignore[arg-type]  # any
        seen = self.after(look, task or self.proposed())
        assert isinstance(seen, publish_events.PullRequestSeen)
        return seen

    async def tell(self, _: Task, text: str, status: str | None) -> str:
        self.told.append((text, status))
        return ""

    def after(self, command: PublishCommand, task: Task | None = None) -> publish_events.PublishEvent:
        return asyncio.run(self.publisher.execute(task or self.task, command))

    def opened(
        self, *replies: Reply, reviewers: tuple[str, ...] = (), task: Task | None = None
    ) -> publish_events.PullRequestOpened:
        order, task = do.OpenPullRequest(branch=BRANCH, commit=self.head, round=1, replies=replies), task or self.task
        reviewed = replace(task, publication=replace(task.publication, reviewers=reviewers))
        opened = self.after(order, reviewed)
        assert isinstance(opened, publish_events.PullRequestOpened)
        return opened


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer(github_api.answer) as server:
        yield server


@pytest.fixture
def stage(tmp_path: Path, server: ForgeServer) -> Stage:
    return Stage(tmp_path, server)


def test_a_deleted_comment_and_an_unknown_reviewer_block_nothing(stage: Stage) -> None:
    number = stage.opened().number
    there = stage.server.says("alice", "rename it", ("a.txt", 1))
    gone, kept = Reply(comment_id="thread:999", mark="a"), Reply(comment_id=f"thread:{there.id}", mark="b")
    assert stage.opened(gone, kept, reviewers=("stranger", "alice")).number == number
    (answer,) = [said for said in stage.server.pulls[-1].threads if said.root == there.id]
    assert answer.body.endswith(f"\nAddressed in {stage.head[:12]}: a change")
    assert stage.server.pulls[-1].asked == ["alice"]


def test_an_answer_names_only_the_commits_of_its_round(stage: Stage) -> None:
    stage.opened()
    before = stage.proposed()
    said = [stage.server.says("alice", text, ("a.txt", 1)) for text in ("why?", "rename it")]
    stage.opened(Reply(comment_id=f"thread:{said[0].id}", mark="a"), task=before)
    for number in range(12):
        commit(stage.worktree, {f"{number}.txt": "x"})
    stage.head = stage.workspace.facts("T-1", stage.task.source.base_commit, stage.task.source.base_commit).head
    stage.opened(Reply(comment_id=f"thread:{said[1].id}", mark="b"), task=before)
    first, second = (one.body.rpartition("\n")[2] for one in stage.server.pulls[-1].threads if one.root)
    assert first == "Considered; no change was needed."
    assert second.startswith("Addressed in ")
    assert second.endswith("; and 2 more")


def test_each_comment_is_answered_with_the_commits_that_change_its_file_and_how(stage: Stage) -> None:
    stage.opened()
    before = replace(stage.proposed(), publication=replace(stage.proposed().publication, round=1))
    about = {name: stage.server.says("alice", f"about {name}", (name, 1)) for name in ("a.txt", "b.txt", "[c].txt")}
    feedback = [{"comment_id": f"thread:{said.id}", "path": name} for name, said in about.items()]
    stage.files.write("T-1", "review-feedback-1.json", json.dumps({"comments": feedback}).encode())
    first = commit(stage.worktree, {"a.txt": "renamed\n"}, "T-1: Rename it")
    second = commit(stage.worktree, {"b.txt": "new\n"}, "T-1: Say why @all")
    base, old = stage.task.source.base_commit, stage.head
    stage.head = stage.workspace.facts("T-1", base, base).head
    stage.opened(*(Reply(comment_id=one["comment_id"], mark=one["path"]) for one in feedback), task=before)
    said = [one.body.rpartition("\n")[2] for one in stage.server.pulls[-1].threads if one.root]
    renamed, why = f"{first[:12]}: Rename it", f"{second[:12]}: Say why @"
    assert said[0] == f"Addressed in {renamed}"
    assert said[1].startswith(f"Addressed in {why}")
    assert said[2].startswith(f"Addressed in {renamed}; {why}")
    assert "@all" not in said[1]
    assert stage.told[-1] == (f"Review feedback addressed in {old[:12]}..{second[:12]}", None)


def test_an_attended_task_publishes_nothing_with_masked_secrets_before_a_person_has_seen_it(stage: Stage) -> None:
    attended = replace(stage.task, policy=replace(stage.task.policy, autonomy=Autonomy.INTERACTIVE))
    stage.files.write("T-1", "analysis.md", b"# A\n\nThe server is at 10.1.2.3 and its password=hunter2hunter2.\n")
    propose = do.OpenPullRequest(branch=BRANCH, commit=stage.head, round=0, replies=())
    held = stage.after(propose, attended)
    assert isinstance(held, publish_events.PublicationHeld)
    assert "ip_address_internal in line" in held.asking.text
    assert (stage.server.pulls, git(stage.bare, "for-each-ref")) == ([], "")
    shown = stage.files.read_text("T-1", "to-be-published.md")
    assert "10.1.2.3" not in shown
    assert "[REDACTED:ip_address_internal]" in shown
    opened = stage.after(replace(propose, confirmed=(held.asking.digest,)), attended)
    assert isinstance(opened, publish_events.PullRequestOpened)
    assert stage.server.pulls[-1].body.strip().endswith(shown.partition("\n\n")[2].strip())
    stage.files.write("T-1", "analysis.md", b"# A\n\nIts password=hunter3hunter3, at 10.1.2.3.\n")
    again = stage.after(replace(propose, confirmed=(held.asking.digest,)), attended)
    assert isinstance(again, publish_events.PublicationHeld)


def test_an_unattended_task_publishes_with_its_secrets_masked(stage: Stage) -> None:
    stage.files.write("T-1", "analysis.md", b"# A\n\nThe server is at 10.1.2.3.\n")
    stage.opened()
    assert "[REDACTED:ip_address_internal]" in stage.server.pulls[-1].body


def test_a_report_with_masked_secrets_waits_for_a_person_too(stage: Stage) -> None:
    attended = replace(
        stage.task,
        policy=replace(stage.task.policy, autonomy=Autonomy.INTERACTIVE),
        stages={"PLANNING": StageRecord(artifacts=("review-report.md",))},
    )
    stage.files.write("T-1", "review-report.md", b"# Findings\n\nIt calls 10.1.2.3.\n")
    held = stage.after(do.PostReport(stage="COMPLETION"), attended)
    assert isinstance(held, publish_events.PublicationHeld)
    assert stage.told == []
    stage.after(do.PostReport(stage="COMPLETION", confirmed=(held.asking.digest,)), attended)
    assert [text for text, _ in stage.told] == ["# Findings\n\nIt calls [REDACTED:ip_address_internal].\n"]


def test_a_secret_in_a_commit_message_blocks_the_branch_and_one_in_a_label_the_label(stage: Stage) -> None:
    token = "ghp_" + "0123456789abcdefghij" * 2
    related = {"scope": ["parser", f"module {token}"], "impacts": []}
    (Path(stage.task.folder) / "related-code.json").write_text(json.dumps(related))
    number = stage.opened().number
    assert stage.server.pulls[-1].labels == ["auto-generated", "feature", "parser"]
    git(stage.worktree, "commit", "--quiet", "--amend", "--message", f"Use {token}")
    leaky = stage.workspace.facts("T-1", stage.task.source.base_commit, stage.task.source.base_commit).head
    with pytest.raises(SecretLeaked, match="github_token was added"):
        stage.after(do.OpenPullRequest(branch=BRANCH, commit=leaky, round=2, replies=()))
    assert stage.server.pulls[-1].number == number
    assert git(stage.bare, "rev-parse", BRANCH) == stage.head


def test_earlier_reviewers_are_asked_again_also_after_a_round_without_comments(stage: Stage) -> None:
    stage.opened()
    for _ in range(2):
        stage.opened(reviewers=("alice",))
    assert stage.server.pulls[-1].asked == ["alice"]


def test_of_many_comments_each_is_reported_and_answered_once_also_after_a_restart(stage: Stage) -> None:
    stage.opened()
    said = [stage.server.says("alice", f"Line {number}", ("a.txt", 1)) for number in range(230)]
    seen: tuple[str, ...] = ()
    heard: list[Reply] = []
    while (new := stage.seen(seen=seen)).feedback:
        assert stage.seen(seen=seen).marks == new.marks, "a daemon that was killed before it noted them polls again"
        seen = newest_marks((*seen, *new.marks))
        heard += [Reply(comment_id=one, mark=mark) for one, mark in new.comments]
    assert [reply.comment_id for reply in heard] == [f"thread:{one.id}" for one in said]
    for _ in range(2):
        stage.opened(*heard[-3:])
    answered = [one.root for one in stage.server.pulls[-1].threads if one.author == stage.server.viewer]
    assert answered == [one.id for one in said[-3:]]


def test_an_account_without_write_access_is_not_asked_for_another_review(stage: Stage) -> None:
    number = stage.opened().number
    stage.server.reviews("alice", "CHANGES_REQUESTED")
    stage.server.reviews("mallory", "CHANGES_REQUESTED")
    seen = stage.after(do.LookAtPullRequest(number=number, round=1, seen=()))
    assert isinstance(seen, publish_events.PullRequestSeen)
    assert seen.reviewers == ("alice",)


def test_a_pull_request_merged_without_the_last_round_is_opened_again(stage: Stage) -> None:
    first = stage.opened()
    pull = stage.server.pulls[-1]
    pull.status, pull.merge_commit, pull.head_sha = "merged", "c" * 40, "d" * 40
    second = stage.opened()
    assert second.number != first.number
    assert stage.opened().number == second.number


def test_a_pull_request_merged_with_the_last_round_is_not_opened_again(stage: Stage) -> None:
    first = stage.opened()
    stage.server.pulls[-1].status = "merged"
    assert stage.opened().number == first.number


def test_a_commit_whose_message_is_not_utf_8_can_be_merged(stage: Stage) -> None:
    commit(stage.worktree, {"b.txt": "x"}, "Zo\udceb: @alice \u202e fixes #1")
    stage.head = stage.workspace.facts("T-1", stage.task.source.base_commit, stage.task.source.base_commit).head
    stage.server.branches[BRANCH] = stage.head
    number = stage.opened().number
    stage.server.reviews("alice", "APPROVED")
    stage.server.runs("unit", "SUCCESS")
    reviewed = replace(stage.task, publication=replace(stage.task.publication, head=stage.head))
    merged = stage.after(do.MergePullRequest(number=number, head=stage.head), reviewed)
    assert isinstance(merged, publish_events.PullRequestMerged)
    (message,) = stage.server.merge_messages
    assert "@alice" not in message
    assert "fixes #1" not in message


def test_forges_that_never_respond_block_nothing_else(tmp_path: Path) -> None:
    asked, answered = threading.Semaphore(0), threading.Event()

    def silent(_: ForgeServer, __: Asked) -> Answer:
        asked.release()
        answered.wait()
        return Answer(status=404)

    async def others_go_on(stage: Stage) -> str:
        look = do.LookAtPullRequest(number=1, round=1, seen=())
        looks = [asyncio.ensure_future(stage.publisher.execute(stage.task, look)) for _ in range(2 * AT_ONCE)]
        for _ in range(AT_ONCE):
            while not asked.acquire(blocking=False):  # noqa: ASYNC110 - a thread sets it
                await asyncio.sleep(0.01)
        try:
            return await asyncio.to_thread(lambda: "at work")
        finally:
            answered.set()
            await asyncio.gather(*looks)

    with ForgeServer(silent) as server:
        assert asyncio.run(others_go_on(Stage(tmp_path, server))) == "at work"


def test_for_an_unevaluated_head_no_feedback_is_handled_and_the_request_is_kept(stage: Stage) -> None:
    stage.opened()
    stage.server.says("alice", "rename it", ("a.txt", 1))
    ours = stage.server.pulls[-1].head_sha
    stage.server.pulls[-1].head_sha = "d" * 40
    stage.server.runs("unit", "FAILURE")
    seen = stage.seen(asked=True)
    assert (seen.feedback, seen.marks, seen.asked) == (None, (), False)
    assert "merge it by hand, or set its branch back" in seen.hindrances[0]
    stage.server.pulls[-1].head_sha = ours
    seen = stage.seen(asked=True)
    assert (seen.feedback, len(seen.comments), seen.asked) == ("review-feedback-1", 1, True)


def test_logs_of_failed_checks_that_were_reported_are_not_fetched_again(stage: Stage) -> None:
    stage.opened()
    stage.server.runs("actions/unit", "FAILURE", log="it broke")
    (mark,) = stage.seen().marks
    asked = len(stage.server.asked)
    look = do.LookAtPullRequest(number=1, round=2, seen=(mark,))
    again = stage.after(look, stage.proposed())
    assert isinstance(again, publish_events.PullRequestSeen)
    assert again.feedback is None
    assert not [one.path for one in stage.server.asked[asked:] if one.path.endswith("/logs")]


def test_a_rate_limit_of_the_forge_is_respected_between_polls(stage: Stage) -> None:
    stage.opened()
    policy = replace(stage.task.policy, look_every=300.0)
    for retry_after, wait in (("3600", 3600.0), ("5", 300.0)):
        message: JsonObject = {"message": "You have exceeded a secondary rate limit"}
        stage.server.answer_next(Answer(status=403, body=message, headers={"Retry-After": retry_after}))
        assert stage.seen(replace(stage.proposed(), policy=policy)).look_after == wait


def test_a_forge_that_is_still_computing_mergeability_is_polled_again_soon_for_a_limited_time(stage: Stage) -> None:
    stage.opened()
    stage.server.pulls[-1].checking = True
    first = stage.seen()
    assert (first.look_after, UNSETTLED in first.hindrances) == (SOON, True)
    task = stage.proposed()
    told = replace(task, publication=replace(task.publication, hindrances=first.hindrances))
    assert stage.seen(told).look_after is None


class Thoughtful(ForgeServer):
    """A forge that knows whether it can merge only at the third request."""

    def answer(self, asked: Asked, authorization: str) -> Answer | None:
        if "mergeStateStatus" in str(asked.body):
            before = sum("mergeStateStatus" in str(one.body) for one in self.asked)
            self.pulls[-1].checking = before < 2
        return super().answer(asked, authorization)


def test_a_merge_waits_until_the_forge_has_computed_mergeability(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unreachable, "usual_wait", 0.01)
    with Thoughtful(github_api.answer) as server:
        stage = Stage(tmp_path, server)
        stage.opened()
        server.reviews("alice", "APPROVED")
        server.runs("unit", "SUCCESS")
        merged = stage.after(do.MergePullRequest(number=1, head=stage.head), stage.proposed())
    assert isinstance(merged, publish_events.PullRequestMerged)


def test_a_moved_repository_is_found_when_its_remote_is_updated(stage: Stage) -> None:
    stage.opened()
    moved = replace(
        stage.proposed(), publication=replace(stage.proposed().publication, forge="https://forge.test/old/name")
    )
    stage.server.answer_next(Answer(status=301, headers={"Location": f"{stage.server.api}/repositories/1/pulls/1"}))
    (told,) = stage.seen(moved).hindrances
    assert "answered 301 " in told
    assert "it has moved" in told
    git(Path(stage.task.source.repo), "remote", "set-url", "origin", f"https://forge.test/{REPO}.git")
    assert not [one for one in stage.seen(moved).hindrances if "could not be read" in one]
