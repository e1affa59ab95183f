"""GitHub and GitHub Enterprise: REST where possible, GraphQL for the rest; github_answers.py translates answers."""

from collections.abc import Mapping
from urllib.parse import quote

from orchestrator.core.events.forge import (
    Comment,
    CommentKind,
    FailedCheck,
    ForgeCheck,
    PullRequest,
    PullRequestDraft,
    PullState,
    PullStatus,
)
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import object_of, text_of
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import Declined, NotFound, Refused, Unreachable
from orchestrator.integrations.forges import github_answers as reading
from orchestrator.integrations.forges.client import LONG, TAIL, ForgeClient, name_of, number_of, objects_of
from orchestrator.integrations.forges.protocol import HeadMoved
from orchestrator.integrations.forges.pull_requests import (
    DraftOpener,
    comments_of_writers,
    merged_commit,
    must_be_mergeable,
    refusal_of,
)
from orchestrator.integrations.forges.remote import ForgeKind, Remote
from orchestrator.integrations.forges.texts import key_of, neutralize, one_line, with_marker
from orchestrator.integrations.http import Method, Params

_WRITERS = frozenset({"admin", "maintain", "write"})
_API_VERSION = "2022-11-28"


class GitHub(DraftOpener):
    """One repository on GitHub; `api` is given if it is not at its usual address."""

    def __init__(self, remote: Remote, login: Credentials, api: str | None = None) -> None:
        self._path = remote.path
        self._owner, _, self._name = remote.path.partition("/")
        base = (api or remote.api(ForgeKind.GITHUB)).rstrip("/")
        self._graphql = base.removesuffix("/v3") + "/graphql"
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": _API_VERSION}
        self._http = ForgeClient(base, login, headers)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def add_labels(self, number: int, labels: tuple[str, ...]) -> None:
        """Add the labels that it does not have."""
        there = self._pull(number).labels
        missing: list[Json] = [label for label in labels if label not in there]
        if missing:
            self._repo("POST", f"/issues/{number}/labels", {"labels": missing})

    def reply(self, number: int, comment_id: str, key: str, text: str) -> None:
        """Answer a comment in its thread or, where it has none, in the conversation, once per key."""
        kind, _, one = comment_id.partition(":")
        body: JsonObject = {"body": with_marker(key, text)}
        if kind != CommentKind.THREAD or not one.isdigit():
            if not self._said(f"/issues/{number}/comments", key):
                self._repo("POST", f"/issues/{number}/comments", body)
        elif not self._said(f"/pulls/{number}/comments", key):
            answered = object_of(self._repo("GET", f"/pulls/comments/{one}"))
            root = answered.get("in_reply_to_id") or number_of(answered.get("id"), "comment")
            self._repo("POST", f"/pulls/{number}/comments/{root}/replies", body)

    def request_review(self, number: int, users: tuple[str, ...]) -> None:
        """Ask those of the users for a review who were not asked yet."""
        pull = object_of(self._repo("GET", f"/pulls/{number}"))
        asked = {name_of(user, "login").lower() for user in objects_of(pull.get("requested_reviewers"))}
        asked.add(name_of(pull.get("user"), "login").lower())
        missing: list[Json] = [user for user in users if user.lower() not in asked]
        if missing:
            self._repo("POST", f"/pulls/{number}/requested_reviewers", {"reviewers": missing})

    def open_comments(self, number: int) -> tuple[Comment, ...]:
        """Return comments to answer, earliest first."""
        resolved = reading.settled(self._threads(number))
        threads, reviews, conversation = (
            self._http.pages(f"/repos/{self._path}/{place}")
            for place in (f"pulls/{number}/comments", f"pulls/{number}/reviews", f"issues/{number}/comments")
        )
        listed = {
            CommentKind.THREAD: threads,
            CommentKind.REVIEW: filter(reading.asks_for_something, reviews),
            CommentKind.CONVERSATION: conversation,
        }
        found = (reading.comment_of(kind, item) for kind, items in listed.items() for item in items)
        unresolved = ((comment, comment.author) for comment, root in found if root not in resolved)
        return comments_of_writers(unresolved, self._may_write)

    def state(self, number: int) -> PullState:
        """Return what decides whether it may be merged."""
        pull = self._pull(number)
        asked = object_of(self._asked_of(reading.STATE, {"number": number}).get("pullRequest"))
        if text_of(asked.get("headRefOid")) != pull.head_sha:
            raise Unreachable(f"pull request {number} changed while it was read; look again")
        mergeable, obstacle = reading.mergeable_of(asked)
        return PullState(
            pull=pull,
            mergeable=mergeable,
            obstacle=obstacle,
            reviews=reading.reviews_of(asked),
            review_required=text_of(asked.get("reviewDecision")) == "REVIEW_REQUIRED",
            checks=self._checks(pull.head_sha),
            open_threads=sum(thread.get("isResolved") is not True for thread in self._threads(number)),
        )

    def failure(self, check: ForgeCheck, commit: str) -> FailedCheck:
        """Return a failed check with the end of its log."""
        tail = self._tail(check.log_id or "")
        return FailedCheck(name=check.name, commit=commit, conclusion=check.conclusion, url=check.url, tail=tail)

    def merge(self, number: int, title: str, body: str, expected_head: str) -> str:
        """Squash and merge exactly this head; the commit of that merge."""
        pull = self._pull(number)
        stands = merged_commit(pull, expected_head)
        if stands is not None:
            return stands
        asked = object_of(self._asked_of(reading.STATE, {"number": number}).get("pullRequest"))
        must_be_mergeable(pull, *reading.mergeable_of(asked))
        wanted: JsonObject = {
            "sha": expected_head,
            "merge_method": "squash",
            "commit_title": one_line(title),
            "commit_message": neutralize(body),
        }
        try:
            done = object_of(self._repo("PUT", f"/pulls/{number}/merge", wanted))
        except Declined as error:
            raise refusal_of(error) from error
        return text_of(done.get("sha"))

    def delete_branch(self, number: int) -> None:
        """Delete the head branch of a merged pull request, unless it has other commits."""
        whole = object_of(self._repo("GET", f"/pulls/{number}"))
        pull = reading.pull_of(whole)
        if pull.status is not PullStatus.MERGED or not self._is_own(whole):
            raise Refused(f"the branch of {pull.url} stays: it was not merged, or belongs to another repository")
        name = quote(pull.head, safe="/")
        try:
            there = object_of(self._repo("GET", f"/git/ref/heads/{name}"))
        except NotFound:
            return
        if text_of(object_of(there.get("object")).get("sha")) != pull.head_sha:
            raise HeadMoved(f"the branch of {pull.url} stays: it has commits that were not merged")
        self._repo("DELETE", f"/git/refs/heads/{name}")

    def _repo(self, method: Method, path: str, body: JsonObject | None = None, params: Params | None = None) -> Json:
        return self._http.request(method, f"/repos/{self._path}{path}", body, params)

    def _asked_of(self, query: str, variables: Mapping[str, Json]) -> JsonObject:
        """Return GraphQL's answer about the repository."""
        body: JsonObject = {"query": query, "variables": {"owner": self._owner, "name": self._name, **variables}}
        data = reading.data_of(object_of(self._http.request("POST", self._graphql, body)), self._path)
        return object_of(data.get("repository"))

    def _of(self, head: str, status: str) -> list[PullRequest]:
        """Return the pull requests from a branch of the repository, into any base."""
        params: Params = {"head": f"{self._owner}:{head}", "state": status}
        listed = self._http.pages(f"/repos/{self._path}/pulls", params)
        pulls = [reading.pull_of(item) for item in listed if self._is_own(item)]
        return [pull for pull in pulls if pull.head == head]

    def _open_ones(self, head: str) -> list[PullRequest]:
        return self._of(head, "open")

    def _ended_ones(self, head: str) -> list[PullRequest]:
        return self._of(head, "closed")

    def _created(self, draft: PullRequestDraft, title: str, body: str) -> PullRequest:
        wanted: JsonObject = {"title": title, "body": body, "head": draft.head, "base": draft.base}
        return reading.pull_of(object_of(self._repo("POST", "/pulls", wanted)))

    def _with_body(self, number: int, body: str) -> PullRequest:
        return reading.pull_of(object_of(self._repo("PATCH", f"/pulls/{number}", {"body": body})))

    def _is_own(self, pull: JsonObject) -> bool:
        """Return whether its branch is one of this repository and not of a fork."""
        head = object_of(object_of(pull.get("head")).get("repo"))
        return text_of(head.get("full_name")).lower() == self._path.lower()

    def _pull(self, number: int) -> PullRequest:
        return reading.pull_of(object_of(self._repo("GET", f"/pulls/{number}")))

    def _said(self, path: str, key: str) -> bool:
        """Return whether this account has posted something with this key there."""
        posted = self._http.pages(f"/repos/{self._path}{path}")
        items = [item for item in posted if key_of(text_of(item.get("body"), LONG)) == key]
        return bool(items) and self._viewer() in map(_login, items)

    def _viewer(self) -> str:
        answer = object_of(self._http.request("POST", self._graphql, {"query": "query{viewer{login}}"}))
        return name_of(reading.data_of(answer, self._path).get("viewer"), "login").removesuffix("[bot]")

    def _threads(self, number: int) -> list[JsonObject]:
        """Return the review threads."""
        return self._pages_of(reading.THREADS, {"number": number}, ("pullRequest", "reviewThreads"))

    def _checks(self, sha: str) -> tuple[ForgeCheck, ...]:
        rows = self._pages_of(reading.CHECKS, {"sha": sha}, ("object", "statusCheckRollup", "contexts"))
        return tuple(map(reading.check_of, reading.newest(rows)))

    def _pages_of(self, query: str, variables: Mapping[str, Json], way: tuple[str, ...]) -> list[JsonObject]:
        """Return all nodes of the connection at the end of a path of fields."""
        rows: list[JsonObject] = []
        after: str | None = None
        for _ in range(reading.MOST_PAGES):
            connection = self._asked_of(query, {**variables, "after": after})
            for name in way:
                connection = object_of(connection.get(name))
            rows += objects_of(connection.get("nodes"))
            page = object_of(connection.get("pageInfo"))
            if page.get("hasNextPage") is not True:
                return rows
            after = text_of(page.get("endCursor"))
        raise Refused(f"{self._path} has more than {reading.MOST} things to look at in one place")

    def _may_write(self, login: str) -> bool:
        if not login or login.endswith("[bot]"):
            return False
        try:
            answer = object_of(self._repo("GET", f"/collaborators/{quote(login, safe='')}/permission"))
        except NotFound:
            return False
        return text_of(answer.get("permission")) in _WRITERS

    def _tail(self, log_id: str) -> str:
        kind, _, one = log_id.partition(":")
        if kind == "job":
            return self._http.tail(f"/repos/{self._path}/actions/jobs/{one}/logs", TAIL)
        if kind == "run":
            output = object_of(object_of(self._repo("GET", f"/check-runs/{one}")).get("output"))
            parts = (text_of(output.get(name), LONG) for name in ("title", "summary", "text"))
            return "\n".join(filter(None, parts))[-TAIL:]
        return ""


def _login(item: JsonObject) -> str:
    return name_of(item.get("user"), "login").removesuffix("[bot]")
