"""What holds for every merge, whatever the forge: exactly the judged head, once, and over no rule."""

from orchestrator.core.escape import shown
from orchestrator.core.forge import Mergeable, PullRequest, PullStatus
from orchestrator.forge.errors import HeadMoved, MergeRefused
from orchestrator.forge.http import Declined

_CONFLICT = 409


def standing(pull: PullRequest, expected_head: str) -> str | None:
    """The commit of the merge of the expected head, if it stands already; raises HeadMoved for another head."""
    if pull.head_sha != expected_head:
        now = shown(pull.head_sha)[:12]
        raise HeadMoved(f"the head of {shown(pull.url)} is {now} now, not {expected_head[:12]}; judge it again")
    return pull.merge_commit or "" if pull.status is PullStatus.MERGED else None


def must_be_mergeable(pull: PullRequest, mergeable: Mergeable, obstacle: str) -> None:
    """Raises MergeRefused unless every rule of the repository is met: an administrator's token would pass over them."""
    if pull.status is not PullStatus.OPEN or mergeable is not Mergeable.YES:
        why = f": {shown(obstacle) or mergeable}" if pull.status is PullStatus.OPEN else ""
        raise MergeRefused(
            f"{shown(pull.url)} is {pull.status} and cannot be merged as it stands{why}",
            again_after=10.0 if mergeable is Mergeable.UNKNOWN else None,
        )


def refusal_of(error: Declined) -> MergeRefused:
    """What the forge means when it declines to merge."""
    return HeadMoved(str(error)) if error.status == _CONFLICT else MergeRefused(str(error))
