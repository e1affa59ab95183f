"""Translate GitHub's answers into the types of core.events.forge; with the GraphQL queries."""

import re
from collections.abc import Iterable

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
from orchestrator.integrations.errors import AccessDenied, Busy, NotFound, Refused, Unreachable
from orchestrator.integrations.forges.client import LONG, URL, at_of, name_of, number_of, objects_of
from orchestrator.redaction.display import escape_text

MOST_PAGES = 50
MOST = 100 * MOST_PAGES

STATE = """query($owner:String!,$name:String!,$number:Int!){repository(owner:$owner,name:$name){
pullRequest(number:$number){headRefOid mergeable mergeStateStatus reviewDecision
latestOpinionatedReviews(first:100){nodes{state authorCanPushToRepository author{login} commit{oid}}}}}}"""

THREADS = """query($owner:String!,$name:String!,$number:Int!,$after:String){
repository(owner:$owner,name:$name){pullRequest(number:$number){reviewThreads(first:100,after:$after){
pageInfo{hasNextPage endCursor} nodes{isResolved comments(first:1){nodes{url}}}}}}}"""

CHECKS = """query($owner:String!,$name:String!,$sha:GitObjectID!,$after:String){
repository(owner:$owner,name:$name){object(oid:$sha){... on Commit{statusCheckRollup{contexts(first:100,after:$after){
pageInfo{hasNextPage endCursor} nodes{__typename
... on CheckRun{databaseId name status conclusion detailsUrl
checkSuite{app{databaseId} workflowRun{event workflow{databaseId}}}}
... on StatusContext{context state targetUrl}}}}}}}}"""

_JOB = re.compile(r"/actions/runs/\d+/job/(\d+)(?:$|[?#])")
_DISCUSSION = re.compile(r"#discussion_r(\d+)$")
_MERGES = frozenset({"CLEAN", "HAS_HOOKS", "UNSTABLE"})
_GREEN = frozenset({"SUCCESS", "NEUTRAL", "SKIPPED"})
_PENDING_STATES = frozenset({"PENDING", "EXPECTED"})
_VERDICTS = {"APPROVED": ReviewVerdict.APPROVED, "CHANGES_REQUESTED": ReviewVerdict.CHANGES_REQUESTED}


def data_of(answer: JsonObject, repository: str) -> JsonObject:
    """Return the data of a GraphQL answer. Raises RemoteError for its errors, which have HTTP status 200."""
    errors = objects_of(answer.get("errors"))
    if not errors:
        return object_of(answer.get("data"))
    message = escape_text("; ".join(text_of(error.get("message")) for error in errors), 500)
    kinds = {text_of(error.get("type")) for error in errors}
    if "RATE_LIMITED" in kinds or "rate limit" in message.lower():
        raise Busy(f"GitHub's rate limit is used up: {message}")
    if "something went wrong" in message.lower():
        raise Unreachable(f"GitHub failed on a query: {message}")
    if "NOT_FOUND" in kinds:
        raise NotFound(f"{repository}: {message}; check that it exists and that this account may see it")
    if kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
        raise AccessDenied(
            f"{repository}: {message}; let this account, or its token, read pull requests, checks and actions"
        )
    raise Refused(f"GitHub refused a query about {repository}: {message}")


def pull_of(item: JsonObject) -> PullRequest:
    """Return a pull request from a REST answer."""
    head, base = object_of(item.get("head")), object_of(item.get("base"))
    merged = bool(item.get("merged_at"))
    status = PullStatus.OPEN if text_of(item.get("state")) == "open" else PullStatus.CLOSED
    return PullRequest(
        number=number_of(item.get("number"), "pull request"),
        url=text_of(item.get("html_url"), URL),
        status=PullStatus.MERGED if merged else status,
        head=text_of(head.get("ref"), URL),
        base=text_of(base.get("ref"), URL),
        head_sha=text_of(head.get("sha")),
        author=name_of(item.get("user"), "login"),
        title=text_of(item.get("title"), URL),
        body=text_of(item.get("body"), LONG),
        labels=tuple(name_of(label, "name") for label in list_of(item.get("labels"))),
        unfinished=item.get("draft") is True,
        merge_commit=text_of(item.get("merge_commit_sha")) if merged else None,
    )


def mergeable_of(pull: JsonObject) -> tuple[Mergeable, str]:
    """Return whether GitHub would merge without bypassing a rule, and its word for the obstacle."""
    can, status = text_of(pull.get("mergeable")), text_of(pull.get("mergeStateStatus"))
    if can == "CONFLICTING" or status == "DIRTY":
        return Mergeable.CONFLICT, status.lower()
    if can != "MERGEABLE" or status in {"", "UNKNOWN"}:
        return Mergeable.UNKNOWN, ""
    return (Mergeable.YES, "") if status in _MERGES else (Mergeable.BLOCKED, status.lower())


def reviews_of(pull: JsonObject) -> tuple[Review, ...]:
    """Return the latest verdict of each reviewer."""
    rows = objects_of(object_of(pull.get("latestOpinionatedReviews")).get("nodes"))
    return tuple(
        Review(
            author=name_of(row.get("author"), "login"),
            verdict=_VERDICTS[text_of(row.get("state"))],
            commit=name_of(row.get("commit"), "oid") or None,
            counts=row.get("authorCanPushToRepository") is True,
        )
        for row in rows
        if text_of(row.get("state")) in _VERDICTS
    )


def check_of(row: JsonObject) -> ForgeCheck:
    """Return a check run of an app, or a status that was set on the commit."""
    if text_of(row.get("__typename")) == "StatusContext":
        state = text_of(row.get("state"))
        pending = state in _PENDING_STATES
        status = CheckStatus.PENDING if pending else CheckStatus.GREEN if state == "SUCCESS" else CheckStatus.RED
        url = text_of(row.get("targetUrl"), URL)
        return ForgeCheck(name=text_of(row.get("context")), status=status, conclusion=state.lower(), url=url)
    conclusion, url = text_of(row.get("conclusion")), text_of(row.get("detailsUrl"), URL)
    status = CheckStatus.GREEN if conclusion in _GREEN else CheckStatus.RED
    if text_of(row.get("status")) != "COMPLETED":
        status = CheckStatus.PENDING
    job, run = _JOB.search(url), integer_of(row.get("databaseId"))
    return ForgeCheck(
        name=text_of(row.get("name")),
        status=status,
        conclusion=(conclusion or text_of(row.get("status"))).lower(),
        url=url,
        log_id=f"job:{job[1]}" if job else f"run:{run}" if run else None,
    )


def newest(rows: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the latest run of each check: GitHub lists every run, and counts the latest."""
    found: dict[tuple[str, ...], JsonObject] = {}
    for row in sorted(rows, key=lambda row: integer_of(row.get("databaseId")) or 0):
        found[_check_key(row)] = row
    return list(found.values())


def _check_key(row: JsonObject) -> tuple[str, ...]:
    """Return what identifies a check over its runs; jobs of several workflows may share a name."""
    suite = object_of(row.get("checkSuite"))
    run = object_of(suite.get("workflowRun"))
    of = (object_of(suite.get("app")).get("databaseId"), object_of(run.get("workflow")).get("databaseId"))
    return text_of(row.get("context")), text_of(row.get("name")), *map(str, of), text_of(run.get("event"))


def asks_for_something(review: JsonObject) -> bool:
    """Whether the text of a review is a request; that of an approval is not, and a pending one is not published."""
    return text_of(review.get("state")) not in {"APPROVED", "PENDING"}


def settled(threads: Iterable[JsonObject]) -> frozenset[int]:
    """Return the ids of the first comments of resolved threads."""
    return frozenset(filter(None, (_root_of(thread) for thread in threads if thread.get("isResolved") is True)))


def comment_of(kind: CommentKind, item: JsonObject) -> tuple[Comment, int]:
    """Return a comment, and the id of the first one of its thread."""
    number = number_of(item.get("id"), "comment")
    line = integer_of(item.get("line")) or integer_of(item.get("original_line"))
    comment = Comment(
        id=f"{kind}:{number}",
        kind=kind,
        author=name_of(item.get("user"), "login"),
        body=text_of(item.get("body"), LONG),
        at=at_of(item.get("updated_at") or item.get("submitted_at") or item.get("created_at")),
        url=text_of(item.get("html_url"), URL),
        path=text_of(item.get("path"), URL) or None,
        line=line,
        outdated=kind is CommentKind.THREAD
        and text_of(item.get("subject_type")) != "file"
        and item.get("line") is None,
    )
    root = integer_of(item.get("in_reply_to_id")) if kind is CommentKind.THREAD else None
    return comment, root or number if kind is CommentKind.THREAD else -1


def _root_of(thread: JsonObject) -> int | None:
    """Return the id of a thread's first comment, from its URL: GraphQL's own field for it is a 32-bit integer."""
    first = objects_of(object_of(thread.get("comments")).get("nodes"))
    match = _DISCUSSION.search(text_of(first[0].get("url"), URL)) if first else None
    return int(match[1]) if match else None
