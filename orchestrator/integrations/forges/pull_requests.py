"""Rules for pull requests on any forge: one for each draft; only the judged head is merged, and against no rule."""

from collections.abc import Iterable

from orchestrator.core.events.forge import Mergeable, PullRequest, PullRequestDraft, PullStatus
from orchestrator.integrations.errors import Declined
from orchestrator.integrations.forges.protocol import HeadMoved, NotMergeable
from orchestrator.integrations.forges.texts import key_of
from orchestrator.redaction.display import escape_text

_CONFLICT = 409


def under_key(pulls: Iterable[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """Return the one that was opened for the draft, whatever its base branch is now."""
    return next((pull for pull in pulls if key_of(pull.body) == draft.key), None)


def existing_for(pulls: list[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """Return the one that was opened for the draft, or any with the same base branch."""
    return under_key(pulls, draft) or next((pull for pull in pulls if pull.base == draft.base), None)


def merged_commit(pull: PullRequest, expected_head: str) -> str | None:
    """Return the merge commit if the expected head is merged already. Raises HeadMoved for another head."""
    if pull.head_sha != expected_head:
        now = escape_text(pull.head_sha)[:12]
        raise HeadMoved(f"the head of {escape_text(pull.url)} is {now} now, not {expected_head[:12]}; judge it again")
    return pull.merge_commit or "" if pull.status is PullStatus.MERGED else None


def must_be_mergeable(pull: PullRequest, mergeable: Mergeable, obstacle: str) -> None:
    """Raise NotMergeable unless every rule of the repository is met: an administrator's token would bypass them."""
    if pull.status is not PullStatus.OPEN or mergeable is not Mergeable.YES:
        why = f": {escape_text(obstacle) or mergeable}" if pull.status is PullStatus.OPEN else ""
        raise NotMergeable(
            f"{escape_text(pull.url)} is {pull.status} and cannot be merged now{why}",
            again_after=10.0 if mergeable is Mergeable.UNKNOWN else None,
        )


def refusal_of(error: Declined) -> NotMergeable:
    """Return the error that a declined merge stands for."""
    return HeadMoved(str(error)) if error.status == _CONFLICT else NotMergeable(str(error))
