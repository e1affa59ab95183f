"""What has to hold before a merge, each guard by itself; neither a person's word nor auto_merge passes over one."""

from pathlib import Path

from tests.acceptance.forge_harness import PullRequestHarness, pull_request_harness
from tests.fakes.forge_server import sha_of
from tests.fakes.repositories import git


def test_auto_merge_waits_for_each_guard_and_needs_no_word(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, auto_merge=True) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        there.hindered(task, "0 of 1 approvals", "no check")
        assert there.harness.client.task(task).waiting == ()
        opinion = there.forge.reviews("mallory", "APPROVED")
        job = there.forge.runs("ci", "IN_PROGRESS")
        there.hindered(task, "0 of 1 approvals", "not finished: ci")
        job.status = "FAILURE"
        there.hindered(task, "0 of 1 approvals", "checks failed: ci")
        opinion.author = "alice"
        there.hindered(task, "checks failed: ci")
        pull.conflict, job.status = True, "SUCCESS"
        there.hindered(task, "conflicts with main")
        pull.draft, pull.conflict = True, False
        there.hindered(task, "draft")
        pull.rule, pull.draft = "blocked", False
        there.hindered(task, "a repository rule", "a review that it has not had")
        thread = there.forge.says("alice", "why so?", place=("README.md", 1))
        pull.rule = ""
        there.hindered(task, "threads that are not resolved: 1")
        against = there.forge.reviews("bob", "CHANGES_REQUESTED")
        thread.resolved = True
        there.hindered(task, "changes were requested by bob")
        opinion.commit, against.state = sha_of("an earlier commit"), "DISMISSED"
        there.hindered(task, "0 of 1 approvals (for other commits: 1)")
        assert pull.status == "open"
        assert there.forge.merge_messages == []
        opinion.commit = pull.head_sha
        there.harness.wait_for_end(task)
        assert (pull.status, len(there.forge.merge_messages)) == ("merged", 1)


def test_a_person_may_not_pass_over_a_guard_either(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        job = there.forge.runs("ci", "SUCCESS")
        _refused(there, task, "0 of 1 approvals")
        there.forge.reviews("alice", "APPROVED")
        job.status = "FAILURE"
        _refused(there, task, "checks failed: ci")
        job.status, pull.conflict = "SUCCESS", True
        _refused(there, task, "conflicts with main")
        pull.conflict = False
        there.hindered(task)
        there.harness.approve(task)
        there.harness.wait_for_end(task)
        assert (pull.status, len(there.forge.merge_messages)) == ("merged", 1)


def test_a_commit_that_nobody_judged_here_is_not_merged(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, auto_merge=True) as there:
        task = there.harness.submit()
        pull = there.under_review(task)
        judged, bare = pull.head_sha, there.upstream.bare
        other = git(bare, "commit-tree", f"{judged}^{{tree}}", "-p", judged, "-m", "somebody else's")
        git(bare, "update-ref", f"refs/heads/{pull.head}", other)
        there.harness.wait_for("the forge's news", lambda: pull.head_sha == other)
        there.accept()
        there.hindered(task, f"its head is {other[:12]}, not {judged[:12]}")
        assert pull.status == "open"


def _refused(there: PullRequestHarness, task: str, why: str) -> None:
    """Approve it, and see that it is not merged and why."""
    there.hindered(task, why)
    before = len(there.harness.journal(task, "MergeRefused"))
    there.harness.approve(task)
    there.harness.wait_for("the refusal", lambda: len(there.harness.journal(task, "MergeRefused")) > before)
    there.hindered(task, why)
    assert there.forge.pulls[-1].status == "open"
    assert there.forge.merge_messages == []
