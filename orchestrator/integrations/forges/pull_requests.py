"""Rules for pull requests on any forge: one for each draft; only the judged head is merged, and against no rule."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

from orchestrator.core.events.forge import Comment, Mergeable, PullRequest, PullRequestDraft, PullStatus
from orchestrator.integrations.errors import Declined
from orchestrator.integrations.forges.protocol import HeadMoved, NotMergeable
from orchestrator.integrations.forges.texts import key_of, one_line, same, with_marker
from orchestrator.redaction.display import escape_text

A = TypeVar("A")

_CONFLICT = 409


def under_key(pulls: Iterable[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """Return the one that was opened for the draft, whatever its base branch is now."""
    return next((pull for pull in pulls if key_of(pull.body) == draft.key), None)


def existing_for(pulls: list[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """Return the one that was opened for the draft, or any with the same base branch."""
    return under_key(pulls, draft) or next((pull for pull in pulls if pull.base == draft.base), None)


class DraftOpener(ABC):
    """How a pull request is opened for a draft on any forge; a forge says how it lists, creates and updates one."""

    def open(self, draft: PullRequestDraft) -> PullRequest:
        """Return the pull request of the draft: found and brought up to date, or new."""
        body = with_marker(draft.key, draft.body)
        found = existing_for(self._open_ones(draft.head), draft)
        if found is not None:
            return self._updated(found, body)
        ended = under_key(self._ended_ones(draft.head), draft)
        if ended is not None:
            return ended
        try:
            return self._created(draft, one_line(draft.title), body)
        except Declined:  # it may have been opened since the search
            found = existing_for(self._open_ones(draft.head), draft)
            if found is None:
                raise
            return self._updated(found, body)

    def _updated(self, pull: PullRequest, body: str) -> PullRequest:
        return pull if same(pull.body, body) else self._with_body(pull.number, body)

    @abstractmethod
    def _open_ones(self, head: str) -> list[PullRequest]:
        """Return the open pull requests from a branch of the repository, whatever their base."""

    @abstractmethod
    def _ended_ones(self, head: str) -> list[PullRequest]:
        """Return the merged and the closed pull requests from a branch of the repository."""

    @abstractmethod
    def _created(self, draft: PullRequestDraft, title: str, body: str) -> PullRequest:
        """Create a pull request. Raises Declined if there is one already."""

    @abstractmethod
    def _with_body(self, number: int, body: str) -> PullRequest:
        """Replace the body of a pull request."""


def comments_of_writers(comments: Iterable[tuple[Comment, A]], may_write: Callable[[A], bool]) -> tuple[Comment, ...]:
    """Return the comments, earliest first, whose authors may write; each author is looked up once.

    Empty ones are left out, and what this program wrote itself.
    """
    known: dict[str, bool] = {}
    kept = []
    for comment, author in comments:
        if key_of(comment.body) is not None or not comment.body.strip():
            continue
        if comment.author not in known:
            known[comment.author] = may_write(author)
        if known[comment.author]:
            kept.append(comment)
    return tuple(sorted(kept, key=lambda comment: comment.at))


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
