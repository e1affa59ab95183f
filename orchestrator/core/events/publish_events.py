"""What can happen to a finished change outside, on its forge or its tracker: events like those of events.py."""

from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.events.forge import PullStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """What every event says: when it happened."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOpened(BaseEvent):
    """The branch is pushed and proposed, or the proposal brought up to date, and comments were answered."""

    number: int
    url: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestSeen(BaseEvent):
    """The daemon looked at a pull request.

    `feedback` names the two files that tell of new comments and failed checks, `marks` is what those are known by,
    `comments` pairs the ids of those that can be answered with their marks. `asked` says that this is the look that a
    person asked for, and that it came about; `look_after` is in how many seconds to look again, where the forge says.
    """

    number: int
    status: PullStatus
    hindrances: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    feedback: str | None = None
    marks: tuple[str, ...] = ()
    comments: tuple[tuple[str, ...], ...] = ()
    merge_commit: str | None = None
    asked: bool = False
    look_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestMerged(BaseEvent):
    """The pull request stands merged, as this commit."""

    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRefused(BaseEvent):
    """The pull request may not be merged yet."""

    hindrances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePrepared(BaseEvent):
    """The changelog of a version is committed."""

    version: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(BaseEvent):
    """The tag is set and pushed."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPosted(BaseEvent):
    """The report is left on the ticket, at `url` if that was told; `failure` says why it could not be."""

    url: str | None = None
    failure: str = ""


PublishEvent = (
    PullRequestOpened | PullRequestSeen | PullRequestMerged | MergeRefused | ReleasePrepared | Released | ReportPosted
)
"""What can happen to a change after it left."""
