"""How a finished change was published: its pull request and rounds of review, its report, or its tag."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Publish(StrEnum):
    """How the last stage of a pipeline publishes the work."""

    BRANCH = "branch"
    """The branch is delivered to the user's repository, and nothing else."""
    PULL_REQUEST = "pull_request"
    """The branch is pushed and proposed, if the repository has a forge, and merged when that is allowed."""
    PARENT = "parent"
    """The work is put on top of the parent's branch; without a parent the branch is delivered like any other."""
    REPORT = "report"
    """A report is posted on the ticket."""
    RELEASE = "release"
    """The changelog is written, and after a confirmation a tag is created and pushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A comment to answer once the change that it asks for is pushed; `mark` identifies the comment and its text."""

    comment_id: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """`forge` is the address of the remote that is pushed to; without one nothing leaves the machine.

    `round` counts the rounds of review, `seen` holds the marks of all comments and failed checks that were handled,
    `replies` the comments to be answered, and `hindrances` why the pull request could not be merged at the last look.
    `refusals` counts how often the forge has refused to merge it since although the look found no reason.
    `asked_for_round` says that a person wants the comments handled at the next look. `look_due` is when the look became
    due that has not found any news yet.
    """

    forge: str | None = None
    number: int | None = None
    pr_url: str | None = None
    head: str | None = None
    round: int = 0
    asked_for_round: bool = False
    look_due: datetime | None = None
    seen: tuple[str, ...] = ()
    replies: tuple[Reply, ...] = ()
    reviewers: tuple[str, ...] = ()
    hindrances: tuple[str, ...] = ()
    refusals: int = 0
    version: str | None = None
    tag: str | None = None
    report_url: str | None = None
    merged_at: datetime | None = None
    merge_commit: str | None = None


NOT_PUBLISHED = Publication()
