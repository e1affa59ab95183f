"""GitLab, at gitlab.com or elsewhere, by its REST API of version 4; gitlab_answers.py translates its answers."""

from datetime import datetime
from urllib.parse import quote

from orchestrator.core.events.forge import (
    Comment,
    FailedCheck,
    ForgeCheck,
    PullRequest,
    PullRequestDraft,
    PullState,
    PullStatus,
)
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import integer_of, object_of, text_of
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import AccessDenied, AuthenticationFailed, Declined, NotFound, Refused
from orchestrator.integrations.forges import gitlab_answers as reading
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

_DEVELOPER = 30
"""The lowest access level that may push."""


class GitLab(DraftOpener):
    """One project on GitLab; `api` is given if it is not at its usual address."""

    def __init__(self, remote: Remote, login: Credentials, api: str | None = None) -> None:
        self._project = f"/projects/{quote(remote.path, safe='')}"
        self._http = ForgeClient(api or remote.api(ForgeKind.GITLAB), login)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def add_labels(self, number: int, labels: tuple[str, ...]) -> None:
        """Add missing labels; a comma would split one into two."""
        there = self._pull(number).labels
        missing = [label for label in (name.replace(",", " ") for name in labels) if label not in there]
        if missing:
            self._request("PUT", f"/merge_requests/{number}", {"add_labels": ",".join(missing)})

    def reply(self, number: int, comment_id: str, key: str, text: str) -> None:
        """Answer a comment in its thread or, where it has none, in the conversation, once per key."""
        _, _, one = comment_id.partition(":")
        for discussion in self._discussions(number):
            notes = objects_of(discussion.get("notes"))
            if one in {str(note.get("id")) for note in notes}:
                thread = quote(text_of(discussion.get("id")), safe="")
                path = f"/merge_requests/{number}/discussions/{thread}/notes"
                break
        else:
            path = f"/merge_requests/{number}/notes"
        self._say(number, path, key, text)

    def request_review(self, number: int, users: tuple[str, ...]) -> None:
        """Ask those of the users for a review who were not asked yet."""
        merge_request = object_of(self._request("GET", f"/merge_requests/{number}"))
        asked = {
            name_of(user, "username").lower(): user.get("id") for user in objects_of(merge_request.get("reviewers"))
        }
        author = name_of(merge_request.get("author"), "username").lower()
        missing = [user for user in users if user.lower() not in {*asked, author}]
        if missing:
            ids: list[Json] = [*asked.values(), *map(self._user, missing)]
            self._request("PUT", f"/merge_requests/{number}", {"reviewer_ids": ids})

    def open_comments(self, number: int) -> tuple[Comment, ...]:
        """Return comments to answer, earliest first."""
        head = self._pull(number)
        notes = (note for discussion in self._discussions(number) for note in reading.open_notes(discussion))
        found = ((reading.comment_of(note, head), object_of(note.get("author"))) for note in notes)
        return comments_of_writers(found, self._may_write)

    def state(self, number: int) -> PullState:
        """Return what decides whether it may be merged."""
        whole = object_of(self._request("GET", f"/merge_requests/{number}"))
        pull = reading.pull_of(whole)
        discussions = self._discussions(number)
        versions = objects_of(self._request("GET", f"/merge_requests/{number}/versions"))
        approvals = object_of(self._request("GET", f"/merge_requests/{number}/approvals"))
        reviewers = objects_of(self._request("GET", f"/merge_requests/{number}/reviewers"))
        mergeable, obstacle = reading.mergeable_of(whole)
        notes = [note for discussion in discussions for note in objects_of(discussion.get("notes"))]
        since = reading.pushed_at(versions, pull.head_sha)
        return PullState(
            pull=pull,
            mergeable=mergeable,
            obstacle=obstacle,
            reviews=reading.reviews_of(pull, since, approvals, reviewers, notes),
            review_required=(integer_of(approvals.get("approvals_left")) or 0) > 0,
            checks=self._checks(whole, pull, since),
            open_threads=sum(reading.is_open_thread(discussion) for discussion in discussions),
        )

    def failure(self, check: ForgeCheck, commit: str) -> FailedCheck:
        """Return a failed check with the end of its log."""
        tail = self._http.tail(f"{self._project}/jobs/{check.log_id}/trace", TAIL) if check.log_id else ""
        return FailedCheck(name=check.name, commit=commit, conclusion=check.conclusion, url=check.url, tail=tail)

    def merge(self, number: int, title: str, body: str, expected_head: str) -> str:
        """Squash and merge exactly this head; the commit of that merge."""
        whole = object_of(self._request("GET", f"/merge_requests/{number}"))
        pull = reading.pull_of(whole)
        stands = merged_commit(pull, expected_head)
        if stands is not None:
            return stands
        must_be_mergeable(pull, *reading.mergeable_of(whole))
        message = f"{one_line(title)}\n\n{neutralize(body)}".strip()
        wanted: JsonObject = {"sha": expected_head, "squash": True, "squash_commit_message": message}
        wanted["should_remove_source_branch"] = False
        try:
            done = reading.pull_of(object_of(self._request("PUT", f"/merge_requests/{number}/merge", wanted)))
        except AuthenticationFailed as error:  # GitLab answers 401 to an account that may not merge into this branch
            raise AccessDenied(f"this account may not merge {pull.url}; let it, or merge there by hand") from error
        except Declined as error:
            raise refusal_of(error) from error
        return done.merge_commit or ""

    def delete_branch(self, number: int) -> None:
        """Delete the source branch of a merged merge request, unless it has other commits."""
        whole = object_of(self._request("GET", f"/merge_requests/{number}"))
        pull = reading.pull_of(whole)
        if pull.status is not PullStatus.MERGED or not reading.is_own(whole):
            raise Refused(f"the branch of {pull.url} stays: it was not merged, or belongs to another project")
        path = f"/repository/branches/{quote(pull.head, safe='')}"
        try:
            there = object_of(self._request("GET", path))
        except NotFound:
            return
        if name_of(there.get("commit"), "id") != pull.head_sha:
            raise HeadMoved(f"the branch of {pull.url} stays: it has commits that were not merged")
        self._request("DELETE", path)

    def _request(self, method: Method, path: str, body: JsonObject | None = None) -> Json:
        return self._http.request(method, self._project + path, body)

    def _of(self, head: str, status: str) -> list[PullRequest]:
        """Return the merge requests from a branch of the project, whatever they aim at."""
        params: Params = {"source_branch": head, "state": status}
        listed = self._http.pages(f"{self._project}/merge_requests", params)
        pulls = [reading.pull_of(item) for item in listed if reading.is_own(item)]
        return [pull for pull in pulls if pull.head == head]

    def _open_ones(self, head: str) -> list[PullRequest]:
        return self._of(head, "opened")

    def _ended_ones(self, head: str) -> list[PullRequest]:
        return [*self._of(head, "merged"), *self._of(head, "closed")]

    def _created(self, draft: PullRequestDraft, title: str, body: str) -> PullRequest:
        branches: JsonObject = {"source_branch": draft.head, "target_branch": draft.base}
        made = self._request("POST", "/merge_requests", {**branches, "title": title, "description": body})
        return reading.pull_of(object_of(made))

    def _with_body(self, number: int, body: str) -> PullRequest:
        return reading.pull_of(object_of(self._request("PUT", f"/merge_requests/{number}", {"description": body})))

    def _pull(self, number: int) -> PullRequest:
        return reading.pull_of(object_of(self._request("GET", f"/merge_requests/{number}")))

    def _say(self, number: int, path: str, key: str, text: str) -> None:
        """Post a note, unless this account has posted one with this key on the merge request."""
        body: JsonObject = {"body": with_marker(key, text)}
        notes = self._http.pages(f"{self._project}/merge_requests/{number}/notes")
        there = [note for note in notes if key_of(text_of(note.get("body"), LONG)) == key]
        viewer = self._viewer() if there else ""
        if not any(name_of(note.get("author"), "username") == viewer for note in there):
            self._request("POST", path, body)

    def _discussions(self, number: int) -> list[JsonObject]:
        return list(self._http.pages(f"{self._project}/merge_requests/{number}/discussions"))

    def _viewer(self) -> str:
        return name_of(self._http.request("GET", "/user"), "username")

    def _user(self, name: str) -> int:
        found = objects_of(self._http.request("GET", "/users", params={"username": name}))
        if not found:
            raise NotFound(f"there is no user {name!r:.80} to ask for a review; check the name")
        return number_of(found[0].get("id"), "user")

    def _may_write(self, author: JsonObject) -> bool:
        """Return whether somebody may push; GitLab says only with a user, and not with a note, who is a program."""
        user = number_of(author.get("id"), "user")
        try:
            member = object_of(self._request("GET", f"/members/all/{user}"))
            if (integer_of(member.get("access_level")) or 0) < _DEVELOPER:
                return False
            return object_of(self._http.request("GET", f"/users/{user}")).get("bot") is not True
        except NotFound:
            return False

    def _checks(self, whole: JsonObject, pull: PullRequest, since: datetime | None) -> tuple[ForgeCheck, ...]:
        """Return the checks of the head, and of GitLab's trial merge of this head."""
        commits = [pull.head_sha]
        pipeline = object_of(whole.get("head_pipeline"))
        if reading.is_of_trial_merge(pipeline, since):
            commits.append(text_of(pipeline.get("sha")))
        listed = [
            status
            for commit in dict.fromkeys(commits)
            for status in self._http.pages(f"{self._project}/repository/commits/{quote(commit, safe='')}/statuses")
        ]
        return tuple(map(reading.check_of, listed))
