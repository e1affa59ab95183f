"""Whether a pull request may be merged: every condition must hold, and nothing waives any of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from orchestrator.core.events.forge import CheckStatus, Mergeable, PullState, PullStatus, ReviewVerdict
from orchestrator.core.task.task import Task
from orchestrator.redaction.display import escape_text

UNSETTLED = "the forge has not yet worked out whether it can be merged"
"""Forges compute that on demand, and again whenever the base branch has moved."""
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """Conditions beyond the forge's own: so many approvals of exactly the commit that was judged here."""

    head: str
    approvals: int = 1


def hindrances_of(task: Task, state: PullState) -> tuple[str, ...]:
    """Return why a task's open pull request may not be merged now; nothing for one that is merged or closed."""
    policy = MergePolicy(head=task.publication.head or "", approvals=task.policy.approvals)
    return merge_blockers(state, policy) if state.pull.status is PullStatus.OPEN else ()


def merge_blockers(state: PullState, policy: MergePolicy) -> tuple[str, ...]:
    """Return the reasons why the pull request may not be merged now; none means that it may."""
    match state.pull.status:
        case PullStatus.MERGED:
            return ("it is merged already",)
        case PullStatus.CLOSED:
            return ("it was closed without a merge",)
        case PullStatus.OPEN:
            return (*_of_the_head(state, policy), *_of_people(state, policy), *_of_checks(state))
        case _:
            assert_never(state.pull.status)


def _of_the_head(state: PullState, policy: MergePolicy) -> Iterator[str]:
    if state.pull.unfinished:
        yield "it is marked as a draft"
    if state.pull.head_sha != policy.head:
        there, judged = escape_text(state.pull.head_sha)[:12], policy.head[:12]
        yield f"its head is {there}, not {judged}, the commit that was judged; merge it by hand, or set its branch back"
    match state.mergeable:
        case Mergeable.YES:
            pass
        case Mergeable.CONFLICT:
            yield f"it conflicts with {escape_text(state.pull.base)}"
        case Mergeable.BLOCKED:
            yield f"a repository rule blocks it ({escape_text(state.obstacle) or 'the forge does not say which'})"
        case Mergeable.UNKNOWN:
            yield UNSETTLED
        case _:
            assert_never(state.mergeable)


def _of_people(state: PullState, policy: MergePolicy) -> Iterator[str]:
    against = [one.author for one in state.reviews if one.counts and one.verdict is ReviewVerdict.CHANGES_REQUESTED]
    if against:
        yield f"changes were requested by {_names(against)}"
    approved = [one for one in state.reviews if one.counts and one.verdict is ReviewVerdict.APPROVED]
    fresh = [one for one in approved if one.commit == state.pull.head_sha]
    if len(fresh) < policy.approvals:
        stale = f" (for other commits: {len(approved) - len(fresh)})" if len(approved) > len(fresh) else ""
        yield f"it has {len(fresh)} of {policy.approvals} approvals{stale}"
    elif state.review_required:
        yield "the repository asks for a review that it has not had"
    if state.open_threads:
        yield f"review threads that are not resolved: {state.open_threads}"


def _of_checks(state: PullState) -> Iterator[str]:
    red = [check.name for check in state.checks if check.status is CheckStatus.RED]
    pending = [check.name for check in state.checks if check.status is CheckStatus.PENDING]
    if red:
        yield f"checks failed: {_names(red)}"
    if pending:
        yield f"checks have not finished: {_names(pending)}"
    if not state.checks:
        yield "no check has reported on it"


def _names(names: list[str]) -> str:
    listed = ", ".join(escape_text(name, 60) for name in names[:_NAMED])
    return listed + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
