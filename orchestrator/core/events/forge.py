"""What a forge (GitHub, GitLab) knows of a pull request, in one set of words for all of them.

A GitLab merge request is a pull request here, its discussion a thread, its pipeline's job a check. All texts and names
come from strangers; they are cut where they were read and have to be escaped or quoted where they are shown.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class PullStatus(StrEnum):
    """The state of a pull request as a whole."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class CheckStatus(StrEnum):
    """The result of a check on the forge; neutral and skipped ones count as green."""

    GREEN = "green"
    RED = "red"
    PENDING = "pending"


class Mergeable(StrEnum):
    """Whether the forge would merge now."""

    YES = "yes"
    CONFLICT = "conflict"
    BLOCKED = "blocked"  # a rule of the repository is not met
    UNKNOWN = "unknown"  # the forge is still working it out


class ReviewVerdict(StrEnum):
    """The verdict of a reviewer."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"


class CommentKind(StrEnum):
    """Where a comment was made."""

    THREAD = "thread"  # at a line or a file of the change
    REVIEW = "review"  # the summary of a review
    CONVERSATION = "conversation"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestDraft:
    """A pull request to be opened; `key` marks its owner, so that repeating the command opens no second one."""

    key: str
    head: str
    base: str
    title: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request from the branch `head` of the repository itself into `base`.

    An `unfinished` one is what forges call a draft.
    """

    number: int
    url: str
    status: PullStatus
    head: str
    base: str
    head_sha: str
    author: str = ""
    title: str = ""
    body: str = ""
    labels: tuple[str, ...] = ()
    unfinished: bool = False
    merge_commit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A reviewer's latest verdict; `commit` is what they reviewed, None where the forge does not say.

    `counts` says whether they may write to the repository.
    """

    author: str
    verdict: ReviewVerdict
    commit: str | None
    counts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeCheck:
    """A check that the forge runs or has a result of; `log_id` is what its output is fetched by, if there is any."""

    name: str
    status: CheckStatus
    conclusion: str
    url: str = ""
    log_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """A failed check on a commit, and the end of its output."""

    name: str
    commit: str
    conclusion: str
    url: str = ""
    tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullState:
    """All that decides whether a pull request may be merged; `obstacle` says in the forge's word what blocks it."""

    pull: PullRequest
    mergeable: Mergeable
    obstacle: str = ""
    reviews: tuple[Review, ...] = ()
    review_required: bool = False
    checks: tuple[ForgeCheck, ...] = ()
    open_threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """An unresolved comment on a pull request, by a person with write access.

    `id` is unique within the pull request over all kinds, `line` counts from one, `outdated` says that the line has
    changed since.
    """

    id: str
    kind: CommentKind
    author: str
    body: str
    at: datetime
    url: str = ""
    path: str | None = None
    line: int | None = None
    outdated: bool = False
