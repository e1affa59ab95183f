"""What can be asked of any forge; every method blocks, raises RemoteError, and may be called again."""

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
    """One repository on one forge, seen by one account; whoever opened it closes it.

    A `key` names an effect (`task:seq:n`): with the same key it is made once. Texts are cut to what the forge takes,
    and whatever in them would call people, close issues or command the forge is made harmless (texts.py).
    """

    def close(self) -> None:
        """Close the connections."""

    def open(self, draft: PullRequestDraft) -> PullRequest:
        """The pull request of the draft: the open one with its body brought up to date, or a new one.

        One with the draft's key that was merged or closed meanwhile is returned as it is. A title stays as people have
        made it since.
        """

    def add_labels(self, number: int, labels: tuple[str, ...]) -> None:
        """Add the labels that it does not have."""

    def reply(self, number: int, comment_id: str, key: str, text: str) -> None:
        """Answer a comment in its thread or, where it has none, in the conversation, once per key."""

    def request_review(self, number: int, users: tuple[str, ...]) -> None:
        """Ask those of the users for a review who were not asked yet; the author is left out."""

    def open_comments(self, number: int) -> tuple[Comment, ...]:
        """What is to be answered, earliest first: comments of people who may write.

        Left out are resolved threads, the words of an approval, and what this program wrote, by whichever account.
        """

    def state(self, number: int) -> PullState:
        """All that decides whether it may be merged."""

    def failure(self, check: ForgeCheck, commit: str) -> FailedCheck:
        """A red check on a commit with the end of its log (16 KiB); a log that cannot be had is empty."""

    def merge(self, number: int, title: str, body: str, expected_head: str) -> str:
        """Squash and merge exactly this head; the commit of that merge, also where it stands already.

        Raises HeadMoved, and NotMergeable where a rule of the repository is not met, also if the account could pass
        over it.
        """

    def delete_branch(self, number: int) -> None:
        """Delete the head branch of a merged pull request, if it is still there and holds nothing but what was merged.

        Raises Refused where it was not merged, and HeadMoved where the branch has gone on.
        """
