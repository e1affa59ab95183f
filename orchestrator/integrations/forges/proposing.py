"""Which pull request is the one that a draft is about."""

from collections.abc import Iterable

from orchestrator.core.events.forge import PullRequest, PullRequestDraft
from orchestrator.integrations.forges.texts import key_of


def under_key(pulls: Iterable[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """The one that was opened for the draft, whatever branch a person has aimed it at since."""
    return next((pull for pull in pulls if key_of(pull.body) == draft.key), None)


def existing_for(pulls: list[PullRequest], draft: PullRequestDraft) -> PullRequest | None:
    """The one that was opened for the draft, or whichever proposes the same."""
    return under_key(pulls, draft) or next((pull for pull in pulls if pull.base == draft.base), None)
