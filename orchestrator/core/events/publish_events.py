"""Events of a published change, on its forge or its tracker."""

from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.events.forge import PullStatus
from orchestrator.core.task.user_requests import RequestDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    """The base of all events: when it happened."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestOpened(BaseEvent):
    """The branch was pushed, its pull request opened or updated, and comments answered."""

    number: int
    url: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestSeen(BaseEvent):
    """The daemon looked at a pull request.

    `feedback` names the two files that describe new comments and failed checks, `marks` identify these, and `comments`
    pairs the id of each comment that can be answered with its mark. `asked` says that a person requested this look.
    `look_after` is the number of seconds until the next look, if the forge asks for a delay.
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
    """The pull request is merged, as this commit."""

    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRefused(BaseEvent):
    """The pull request may not be merged yet."""

    hindrances: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchReplayed(BaseEvent):
    """The parent's branch had moved on: the work was put on top of it, as `commit`. `onto` is the parent's commit.

    With `conflicts`, the files that both sides changed, nothing was moved.
    """

    onto: str
    commit: str | None = None
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePrepared(BaseEvent):
    """The changelog of a version is committed."""

    version: str
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Released(BaseEvent):
    """The tag was set and pushed."""

    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPosted(BaseEvent):
    """The report was posted on the ticket, at `url` if known; `failure` says why it could not be."""

    url: str | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationHeld(BaseEvent):
    """Secrets were masked in a text that is to be published, and a person has to see it first; nothing was sent."""

    asking: RequestDraft


PublishEvent = (
    BranchReplayed
    | PublicationHeld
    | PullRequestOpened
    | PullRequestSeen
    | PullRequestMerged
    | MergeRefused
    | ReleasePrepared
    | Released
    | ReportPosted
)
"""Whatever can happen to a change after it left this machine."""
