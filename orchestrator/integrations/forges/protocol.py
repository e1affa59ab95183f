"""What any forge can do; every method blocks, raises RemoteError, and may be repeated."""

from typing import Protocol

from orchestrator.core.events.forge import Comment, FailedCheck, ForgeCheck, PullRequest, PullRequestDraft, PullState
from orchestrator.integrations.errors import Refused


class NotMergeable(Refused):
    """A pull request cannot be merged in its present state; nothing was merged.

    `again_after` is given where the forge has not yet computed whether it can be.
    """


class HeadMoved(NotMergeable):
    """The branch has another commit than the one that was judged; nothing was merged or deleted."""


class Forge(Protocol):
    """One repository on one forge, accessed by one account; whoever opened it closes it.

    A `key` names an effect (`task:seq:n`), which happens once per key. Texts are cut to what the forge accepts, and
    mentions, closing words and commands in them are made harmless (texts.py).
    """

    def close(self) -> None:
        """Close the connections."""

    def open(self, draft: PullRequestDraft) -> PullRequest:
        """Return the pull request of the draft: the open one with its body updated, or a new one.

        One with the draft's key that was merged or closed meanwhile is returned unchanged. A title that people have
        changed is kept.
        """

    def add_labels(self, number: int, labels: tuple[str, ...]) -> None:
        """Add the labels that it does not have."""

    def reply(self, number: int, comment_id: str, key: str, text: str) -> None:
        """Answer a comment in its thread, or in the conversation if it has none; once per key."""

    def request_review(self, number: int, users: tuple[str, ...]) -> None:
        """Request a review from users who were not asked yet; the author is left out."""

    def open_comments(self, number: int) -> tuple[Comment, ...]:
        """Return comments to answer, earliest first: those of people with write access.

        Left out are resolved threads, the texts of approvals, and what this program wrote, by whichever account.
        """

    def state(self, number: int) -> PullState:
        """Return what decides whether it may be merged."""

    def failure(self, check: ForgeCheck, commit: str) -> FailedCheck:
        """Return a failed check with the end of its log (16 KiB); "" if the log cannot be read."""

    def merge(self, number: int, title: str, body: str, expected_head: str) -> str:
        """Squash and merge exactly this head, and return the commit, also if it is merged already.

        Raises HeadMoved, and NotMergeable if a rule of the repository is not met, even if the account could bypass it.
        """

    def delete_branch(self, number: int) -> None:
        """Delete the head branch of a merged pull request, if it still exists and has no other commits.

        Raises Refused if it was not merged, and HeadMoved if the branch has other commits.
        """
