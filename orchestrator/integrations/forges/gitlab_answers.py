"""Translate GitLab's answers into the types of core.events.forge."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from orchestrator.core.events.forge import (
    CheckStatus,
    Comment,
    CommentKind,
    ForgeCheck,
    Mergeable,
    PullRequest,
    PullStatus,
    Review,
    ReviewVerdict,
)
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import integer_of, list_of, object_of, text_of
from orchestrator.integrations.forges.client import LONG, URL, at_of, name_of, number_of, objects_of

_STATUSES = {"opened": PullStatus.OPEN, "locked": PullStatus.OPEN, "merged": PullStatus.MERGED}
_UNKNOWN = frozenset({"", "unchecked", "checking", "preparing", "approvals_syncing", "cannot_be_merged_recheck"})
_CONFLICT = frozenset({"conflict", "broken_status", "cannot_be_merged"})
_GREEN = frozenset({"success", "skipped", "manual"})
"""A manual job that was not started blocks nothing unless the project says so, and then GitLab reports that itself."""
_RED = frozenset({"failed", "canceled"})
_APPROVED = "approved this merge request"


def pull_of(item: JsonObject) -> PullRequest:
    """Return a merge request; a fast-forward merge has the head as its merge commit."""
    commits = (text_of(item.get(name)) for name in ("merge_commit_sha", "squash_commit_sha", "sha"))
    status = _STATUSES.get(text_of(item.get("state")), PullStatus.CLOSED)
    return PullRequest(
        number=number_of(item.get("iid"), "merge request"),
        url=text_of(item.get("web_url"), URL),
        status=status,
        head=text_of(item.get("source_branch"), URL),
        base=text_of(item.get("target_branch"), URL),
        head_sha=text_of(item.get("sha")),
        author=name_of(item.get("author"), "username"),
        title=text_of(item.get("title"), URL),
        body=text_of(item.get("description"), LONG),
        labels=tuple(text_of(label) for label in list_of(item.get("labels"))),
        unfinished=item.get("draft") is True,
        merge_commit=next(filter(None, commits), None) if status is PullStatus.MERGED else None,
    )


def is_own(item: JsonObject) -> bool:
    """Return whether its branch is one of this project and not of a fork."""
    return item.get("source_project_id") == item.get("target_project_id")


def mergeable_of(item: JsonObject) -> tuple[Mergeable, str]:
    """Return whether GitLab would merge, and its word for the obstacle."""
    status = text_of(item.get("detailed_merge_status")) or text_of(item.get("merge_status"))
    if item.get("has_conflicts") is True or status in _CONFLICT:
        return Mergeable.CONFLICT, status
    if status in _UNKNOWN:
        return Mergeable.UNKNOWN, ""
    return (Mergeable.YES, "") if status in {"mergeable", "can_be_merged"} else (Mergeable.BLOCKED, status)


def pushed_at(versions: Iterable[JsonObject], head_sha: str) -> datetime | None:
    """Return when the head was pushed to the merge request."""
    pushed = [at_of(row.get("created_at")) for row in versions if text_of(row.get("head_commit_sha")) == head_sha]
    return max(pushed, default=None)


def reviews_of(
    pull: PullRequest,
    since: datetime | None,
    approvals: JsonObject,
    reviewers: Iterable[JsonObject],
    notes: Iterable[JsonObject],
) -> tuple[Review, ...]:
    """Return approvals, and whether each is newer than the head (pushed at `since`): GitLab stores no commit.

    A GitLab that reports no time with the approval has it in its system notes. The author's own does not count:
    this program's account opened the merge request.
    """
    approving = (note for note in notes if note.get("system") is True and text_of(note.get("body")) == _APPROVED)
    said = {_author(note): at_of(note.get("created_at")) for note in approving}
    reviews = []
    for row in objects_of(approvals.get("approved_by")):
        user = name_of(row.get("user"), "username")
        at = at_of(row["approved_at"]) if row.get("approved_at") else said.get(user)
        commit = pull.head_sha if at is not None and since is not None and at >= since else None
        counts = user != pull.author
        reviews.append(Review(author=user, verdict=ReviewVerdict.APPROVED, commit=commit, counts=counts))
    for row in reviewers:
        if text_of(row.get("state")) == "requested_changes":
            author = name_of(row.get("user"), "username")
            reviews.append(Review(author=author, verdict=ReviewVerdict.CHANGES_REQUESTED, commit=None))
    return tuple(reviews)


def check_of(row: JsonObject) -> ForgeCheck:
    """Return a job of a pipeline, or a status that another program set on the commit."""
    word = text_of(row.get("status"))
    status = CheckStatus.GREEN if word in _GREEN else CheckStatus.RED if word in _RED else CheckStatus.PENDING
    if status is CheckStatus.RED and row.get("allow_failure") is True:
        status = CheckStatus.GREEN
    return ForgeCheck(
        name=text_of(row.get("name")),
        status=status,
        conclusion=word,
        url=text_of(row.get("target_url"), URL),
        log_id=str(integer_of(row.get("id")) or "") or None,
    )


def is_of_trial_merge(pipeline: JsonObject, since: datetime | None) -> bool:
    """Return whether a pipeline ran on GitLab's trial merge of the head that was pushed at this time."""
    of_merge = text_of(pipeline.get("ref")).endswith("/merge")
    return of_merge and since is not None and at_of(pipeline.get("created_at")) >= since


def open_notes(discussion: JsonObject) -> Iterator[JsonObject]:
    """Yield people's notes in a discussion that is not resolved."""
    notes = objects_of(discussion.get("notes"))
    if not any(note.get("resolved") is True for note in notes):
        yield from (note for note in notes if note.get("system") is not True)


def is_open_thread(discussion: JsonObject) -> bool:
    """Return whether a discussion can be resolved, and is not."""
    notes = objects_of(discussion.get("notes"))
    return any(note.get("resolvable") is True and note.get("resolved") is not True for note in notes)


def comment_of(note: JsonObject, pull: PullRequest) -> Comment:
    """Return a note; one on a line is outdated once the head has changed."""
    number, position = number_of(note.get("id"), "note"), object_of(note.get("position"))
    kind = CommentKind.THREAD if position else CommentKind.CONVERSATION
    path = text_of(position.get("new_path"), URL) or text_of(position.get("old_path"), URL)
    return Comment(
        id=f"{kind}:{number}",
        kind=kind,
        author=_author(note),
        body=text_of(note.get("body"), LONG),
        at=at_of(note.get("updated_at") or note.get("created_at")),
        url=f"{pull.url}#note_{number}",
        path=path or None,
        line=integer_of(position.get("new_line")) or integer_of(position.get("old_line")),
        outdated=bool(position) and text_of(position.get("head_sha")) != pull.head_sha,
    )


def _author(note: JsonObject) -> str:
    return name_of(note.get("author"), "username")
