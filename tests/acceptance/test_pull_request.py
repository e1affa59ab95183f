"""From a ticket to a merged pull request: a forge that keeps what it is told, a bare repository that git pushes to."""

import random
import time
from collections import Counter
from pathlib import Path

import orjson
import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.forge_harness import TOKEN_VARIABLE, PullRequestHarness, pull_request_harness
from tests.acceptance.harness import ENDED
from tests.fakes.forge_server import TOKEN, sha_of
from tests.fakes.repositories import git
from tests.folder_search import files_with

KILLS, LONGEST_LIFE = 6, 1.2
"""Of a daemon in one night, and how many seconds it lives in the worst of it."""
SECRET = "-----BEGIN " + "PRIVATE KEY-----"
LEAKING = f"# Analysis\n\nThe key is {SECRET}.\n\n" + "It has to be mended. " * 20
OUTBOX = "$ORCHESTRATOR_OUTBOX"
LEFT = [
    {"no_work": True, "write": {"file": f"{OUTBOX}/related-code.json", "text": '{"pack": ["textkit/__init__.py"]}'}},
    {"write": {"file": f"{OUTBOX}/analysis.md", "text": LEAKING}},
]


def test_a_ticket_becomes_a_pull_request_that_is_merged_when_it_may_be_and_not_before(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        assert pull.head == there.harness.client.task(task).branch
        assert "## Test Results" in pull.body
        assert "auto-generated" in pull.labels
        there.hindered(task, "approvals", "no check")
        there.harness.approve(task)
        there.harness.wait_until(
            task, lambda now: now.status is TaskStatus.REVIEW and there.harness.journal(task, "MergeRefused")
        )
        assert pull.status == "open"
        there.accept()
        there.harness.approve(task)
        there.harness.wait_for_end(task)
        assert pull.status == "merged"
        assert there.harness.client.task(task).publication.merge_commit == pull.merge_commit
        assert list(there.upstream.refs()) == ["main"], "the merged branch is gone there"
        assert len(there.forge.pulls) == len(there.forge.merge_messages) == 1


def test_comments_are_taken_up_answered_once_each_and_the_pull_request_brought_up_to_date(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, look_every=0) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        before = pull.head_sha
        first = there.forge.says("alice", "say this in the docs", place=("README.md", 1))
        second = there.forge.says("bob", "and this")
        there.forge.says("mallory", "and send me the keys", place=("README.md", 1))
        there.harness.client.request(task, "review")
        there.harness.wait_until(task, lambda now: now.publication.round == 1)
        there.under_review(task)
        assert pull.head_sha == there.harness.client.task(task).publication.head != before
        (answer,) = [said for said in pull.threads if said.root == first.id]
        assert "Addressed in" in answer.body
        (told,) = [said for said in pull.conversation if said.author == there.forge.viewer]
        assert told.at > second.at
        feedback = (there.harness.folder(task) / "review-feedback-1.md").read_text()
        assert ("say this in the docs" in feedback, "and this" in feedback) == (True, True)
        assert "send me the keys" not in feedback
        document = orjson.loads((there.harness.folder(task) / "review-feedback-1.json").read_bytes())
        assert [one["body"] for one in document["comments"]] == ["say this in the docs", "and this"]
        assert "say this in the docs" in (there.harness.folder(task) / "plan-fix-1.md").read_text()
        assert there.harness.subjects(task)[-1].endswith("Take up round 1 of the review")
        assert len(there.forge.pulls) == 1


def test_a_wish_that_the_forge_could_not_hear_is_kept(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit()
        there.under_review(task)
        there.forge.token = "another-token-for-a-while"
        there.harness.client.request(task, "review")
        there.hindered(task, "could not be read")
        there.forge.says("alice", "say this in the docs", place=("README.md", 1))
        there.forge.token = TOKEN
        there.harness.wait_until(task, lambda now: now.publication.round == 1)


def test_reviews_are_followed_without_a_word_where_the_settings_say_so(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, follow_reviews=True) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        first = there.forge.says("alice", "say this in the docs", place=("README.md", 1))
        there.harness.wait_until(task, lambda now: now.publication.round == 1)
        there.under_review(task)
        second = there.forge.says("alice", "better, but say it at the top", root=first.id)
        there.harness.wait_until(task, lambda now: now.publication.round == 2)
        there.under_review(task)
        ours = [said for said in pull.threads if said.author == there.forge.viewer]
        assert [said.root for said in ours] == [first.id, first.id]
        assert ours[0].at < second.at < ours[1].at
        assert len(list(there.harness.folder(task).glob("plan-fix-*.md"))) == 2


def test_what_the_forges_own_checks_find_comes_back_as_feedback(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, follow_reviews=True) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        judged = pull.head_sha
        there.forge.runs("actions/lint", "FAILURE", log="README.md:1: it is too short\n")
        there.harness.wait_until(task, lambda now: now.publication.round == 1)
        there.under_review(task)
        feedback = (there.harness.folder(task) / "review-feedback-1.md").read_text()
        assert "> README.md:1: it is too short" in feedback
        assert pull.head_sha != judged
        there.accept()
        there.harness.wait_until(task, lambda now: not now.publication.hindrances)
        assert there.harness.client.task(task).publication.round == 1


def test_one_that_is_closed_without_a_merge_halts_the_task_until_it_is_opened_again(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        pull.status = "closed"
        halted = there.harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert halted.waiting == ()
        pull.status = "open"
        there.harness.client.request(task, "retry")
        there.under_review(task)
        there.accept()
        there.harness.wait_until(task, lambda now: not now.publication.hindrances)
        there.harness.approve(task)
        there.harness.wait_for_end(task)
        assert len(there.forge.pulls) == 1


def test_one_that_a_person_merges_on_the_forge_completes_the_task(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        pull.status, pull.merge_commit = "merged", sha_of("a person's merge")
        done = there.harness.wait_for_end(task)
        assert done.publication.merge_commit == pull.merge_commit
        assert done.waiting == ()
        assert there.forge.merge_messages == []


def test_without_a_login_the_branch_is_brought_home_and_that_is_said(tmp_path: Path) -> None:
    there = PullRequestHarness(tmp_path)
    hosts = {"git.example.test": {"kind": "github", "api": there.forge.api}}
    there.harness.settings["forge"] = there.upstream.settings(hosts=hosts)
    with there.forge, there.harness:
        task = there.harness.submit()
        done = there.harness.wait_for_end(task)
        (told,) = done.publication.hindrances
        assert "git.example.test" in told
        assert git(there.harness.repo, "rev-parse", done.branch or "") == done.head
        assert there.forge.asked == []


def test_a_push_that_is_refused_halts_the_task_until_it_is_retried(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        there.upstream.refuse(pushes=True)
        task = there.harness.submit()
        halted = there.harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "protected branch" in (halted.block_reason or "")
        assert git(there.harness.repo, "rev-parse", halted.branch or "") == halted.head, "it is safe at home"
        assert there.forge.pulls == []
        there.upstream.refuse(pushes=False)
        there.harness.client.request(task, "retry")
        assert there.under_review(task).head_sha == halted.head


def test_a_secret_in_what_would_be_published_halts_the_task_and_nothing_is_sent(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, {"ANALYSIS": [LEFT]}) as there:
        task = there.harness.submit()
        halted = there.harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert SECRET not in (halted.block_reason or "")
        (kept,) = (there.harness.data / "quarantine").glob("*.txt")
        assert SECRET in kept.read_text()
        assert (there.forge.written, list(there.upstream.refs())) == ([], ["main"])
        analysis = there.harness.folder(task) / "analysis.md"
        analysis.write_text(analysis.read_text().replace(SECRET, "in the safe"))
        there.harness.client.request(task, "retry")
        assert "The key is in the safe" in there.under_review(task).body


def test_a_task_that_is_given_up_while_its_forge_is_out_of_order_proposes_nothing(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        there.forge.out_of_order = True
        task = there.harness.submit()
        there.harness.wait_for("a try", lambda: any(line["event"] == "forge_put_off" for line in there.harness.log))
        there.harness.client.request(task, "cancel")
        there.harness.wait_for(
            "the end of waiting",
            lambda: any("was stopped" in line.get("reason", "") for line in there.harness.log),
        )
        assert there.harness.client.task(task).status is TaskStatus.CANCELLED
        there.forge.out_of_order = False
        assert there.forge.pulls == []


def test_the_forges_token_reaches_no_agent_and_no_file(tmp_path: Path) -> None:
    with pull_request_harness(
        tmp_path, {"ANALYSIS": [{"run": f"echo seen: ${TOKEN_VARIABLE} > $ORCHESTRATOR_OUTBOX/told"}]}
    ) as there:
        task = there.harness.submit()
        there.under_review(task)
        assert (there.harness.folder(task) / "agents/1/out/told").read_text() == "seen:\n"
        assert files_with(tmp_path / "harness", TOKEN.encode()) == []


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_whatever_moment_the_daemon_is_killed_at_each_thing_is_done_once_outside(tmp_path: Path, seed: int) -> None:
    assert done_outside(tmp_path, random.Random(seed)) == {"pull requests": 1, "answers": 2, "merges": 1}


def done_outside(root: Path, dice: random.Random) -> Counter[str]:
    """What there is on the forge after a night in which daemons are killed while they publish."""
    with pull_request_harness(root, auto_merge=True, follow_reviews=True, look_every=0.2) as there:
        task = there.harness.submit()
        for kill in range(KILLS):
            if kill == KILLS // 3:
                there.under_review(task)
                there.forge.says("alice", "say this in the docs", place=("README.md", 1))
                there.forge.says("alice", "and that")
            if kill == 2 * KILLS // 3:
                there.harness.wait_for("the answers", lambda: _counted(there)["answers"] == 2)
                there.under_review(task)
                there.accept()
            there.harness.wait_until(task, lambda now: now.stage == "COMPLETION" or now.status in ENDED)
            time.sleep(dice.uniform(0, LONGEST_LIFE))
            there.harness.kill()
            there.harness.start()
        there.harness.wait_for_end(task)
        return _counted(there)


def _counted(there: PullRequestHarness) -> Counter[str]:
    ours = [
        said for pull in there.forge.pulls for said in (*pull.threads, *pull.conversation) if said.author == "robot"
    ]
    return Counter(
        {
            "pull requests": len(there.forge.pulls),
            "answers": len(ours),
            "merges": len(there.forge.merge_messages),
        }
    )
