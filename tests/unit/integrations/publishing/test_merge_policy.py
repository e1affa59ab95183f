"""Whether a pull request may be merged, and if not, why."""

from dataclasses import replace

import pytest

from orchestrator.core.events.forge import (
    CheckStatus,
    ForgeCheck,
    Mergeable,
    PullRequest,
    PullState,
    PullStatus,
    Review,
    ReviewVerdict,
)
from orchestrator.integrations.publishing.merge_policy import MergePolicy, merge_blockers

HEAD, EARLIER = "a" * 40, "e" * 40
POLICY = MergePolicy(head=HEAD)
PULL = PullRequest(
    number=7, url="https://forge.test/7", status=PullStatus.OPEN, head="feature/x", base="main", head_sha=HEAD
)
APPROVAL = Review(author="alice", verdict=ReviewVerdict.APPROVED, commit=HEAD)
BUILD = ForgeCheck(name="build", status=CheckStatus.GREEN, conclusion="success")
READY = PullState(pull=PULL, mergeable=Mergeable.YES, reviews=(APPROVAL,), checks=(BUILD,))


def check(name: str, status: CheckStatus) -> ForgeCheck:
    return ForgeCheck(name=name, status=status, conclusion="")


def test_a_pull_request_without_blockers_may_be_merged() -> None:
    assert merge_blockers(READY, POLICY) == ()


@pytest.mark.parametrize(
    ("state", "hindrance"),
    [
        (replace(READY, pull=replace(PULL, status=PullStatus.MERGED)), "it is merged already"),
        (replace(READY, pull=replace(PULL, status=PullStatus.CLOSED)), "it was closed without a merge"),
        (replace(READY, pull=replace(PULL, unfinished=True)), "it is marked as a draft"),
        (replace(READY, mergeable=Mergeable.CONFLICT), "it conflicts with main"),
        (replace(READY, mergeable=Mergeable.UNKNOWN), "the forge has not yet worked out whether it can be merged"),
        (replace(READY, mergeable=Mergeable.BLOCKED, obstacle="behind"), "a repository rule blocks it (behind)"),
        (
            replace(READY, mergeable=Mergeable.BLOCKED),
            "a repository rule blocks it (the forge does not say which)",
        ),
        (replace(READY, reviews=()), "it has 0 of 1 approvals"),
        (replace(READY, review_required=True), "the repository asks for a review that it has not had"),
        (replace(READY, open_threads=2), "review threads that are not resolved: 2"),
        (replace(READY, checks=()), "no check has reported on it"),
        (replace(READY, checks=(BUILD, check("lint", CheckStatus.RED))), "checks failed: lint"),
        (replace(READY, checks=(BUILD, check("e2e", CheckStatus.PENDING))), "checks have not finished: e2e"),
        (
            replace(READY, checks=tuple(check(f"c{n}", CheckStatus.RED) for n in range(7))),
            "checks failed: c0, c1, c2, c3, c4 and 2 more",
        ),
    ],
)
def test_each_blocker_is_stated_in_plain_words(state: PullState, hindrance: str) -> None:
    assert merge_blockers(state, POLICY) == (hindrance,)


def test_a_head_that_was_not_evaluated_is_not_merged() -> None:
    (told,) = merge_blockers(READY, MergePolicy(head=EARLIER))
    assert told == (
        "its head is aaaaaaaaaaaa, not eeeeeeeeeeee, the commit that was judged; "
        "merge it by hand, or set its branch back"
    )


def test_an_approval_counts_only_for_the_reviewed_commit() -> None:
    stale = replace(READY, reviews=(replace(APPROVAL, commit=EARLIER),))
    assert merge_blockers(stale, POLICY) == ("it has 0 of 1 approvals (for other commits: 1)",)
    unknown = replace(READY, reviews=(replace(APPROVAL, commit=None),))
    assert merge_blockers(unknown, POLICY) == ("it has 0 of 1 approvals (for other commits: 1)",)


def test_reviews_without_write_access_are_ignored() -> None:
    approval = replace(READY, reviews=(replace(APPROVAL, counts=False),))
    assert merge_blockers(approval, POLICY) == ("it has 0 of 1 approvals",)
    against = Review(author="mallory", verdict=ReviewVerdict.CHANGES_REQUESTED, commit=HEAD, counts=False)
    assert merge_blockers(replace(READY, reviews=(APPROVAL, against)), POLICY) == ()


def test_requested_changes_block_a_merge_despite_other_approvals() -> None:
    against = Review(author="bob", verdict=ReviewVerdict.CHANGES_REQUESTED, commit=EARLIER)
    assert merge_blockers(replace(READY, reviews=(APPROVAL, against)), POLICY) == ("changes were requested by bob",)


def test_a_policy_sets_the_approvals_but_never_waives_a_failed_check() -> None:
    assert merge_blockers(READY, replace(POLICY, approvals=2)) == ("it has 1 of 2 approvals",)
    alone = replace(READY, reviews=())
    assert merge_blockers(alone, MergePolicy(head=HEAD, approvals=0)) == ()
    red = replace(alone, checks=(check("lint", CheckStatus.RED),))
    assert merge_blockers(red, MergePolicy(head=HEAD, approvals=0)) == ("checks failed: lint",)


def test_external_names_are_escaped() -> None:
    evil = replace(READY, checks=(check("a\x1b[2J\nb", CheckStatus.RED),))
    assert merge_blockers(evil, POLICY) == (r"checks failed: a\x1b[2J\nb",)
