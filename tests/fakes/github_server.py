"""GitHub Enterprise on loopback."""

import re
import shlex

from orchestrator.formats.codec import Json
from orchestrator.formats.fields import text_of
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.text.ticket import Tracker
from tests.fakes.github_description import completed, objections
from tests.fakes.tracker_server import Asked, Issue, TrackerServer, at, named

_PATH = re.compile(r"/api/v3/repos/(?P<repo>[\w.-]+/[\w.-]+)/issues/(?P<number>\d+)(?P<comments>/comments)?")

_LIST = re.compile(r"/api/v3(?:/repos/(?P<repo>[\w.-]+/[\w.-]+)/issues|/search/issues)")


class GitHubServer(TrackerServer):
    """Stores issues by `owner/repo#number`."""

    @property
    def account(self) -> TrackerAccount:
        return TrackerAccount(kind=Tracker.GITHUB, url=self.url, token=self.token, setting="GITHUB_TOKEN")

    def answer(self, asked: Asked) -> Json:
        if listing := _LIST.fullmatch(asked.path):
            return self._listed(asked, listing["repo"] or "")
        found = _PATH.fullmatch(asked.path)
        issue = self.issues.get(f"{found['repo']}#{found['number']}") if found else None
        if found is None or issue is None:
            return None
        path = asked.path.removeprefix("/api/v3")
        self.objections += objections(asked.method, path, asked.query, asked.body)
        if asked.method == "POST":
            said = self.take(f"{found['repo']}#{found['number']}", text_of(asked.body["body"], 40_000))
            return self._whole("POST", path, 201, said)
        told = _comments(issue, asked) if found["comments"] else _issue(int(found["number"]), issue)
        return self._whole("GET", path, 200, told)

    def _listed(self, asked: Asked, repo: str) -> Json:
        """Return a page of issues: those of a repository with all labels, or those that a search finds."""
        path, words = asked.path.removeprefix("/api/v3"), shlex.split(asked.query.get("q", ""))
        self.objections += objections("GET", path, asked.query, {})
        labels = [word.removeprefix("label:") for word in words if word.startswith("label:")]
        labels += filter(None, asked.query.get("labels", "").split(","))
        repo = repo or next(word.removeprefix("repo:") for word in words if word.startswith("repo:"))
        sought = [word for word in words if ":" not in word]
        found = [
            _issue(int(name.rpartition("#")[2]), issue)
            for name, issue in self.issues.items()
            if name.startswith(f"{repo}#")
            and not issue.is_closed
            and set(labels) <= set(issue.labels)
            and all(word in issue.title for word in sought)
            and not (words and issue.is_pull)
        ]
        size, page = asked.number("per_page", 30), asked.number("page", 1)
        here = found[(page - 1) * size : page * size]
        if not words:
            return self._whole("GET", path, 200, here)
        items: list[Json] = [{**one, "body": one["body"] or "", "score": 1.0} for one in here if isinstance(one, dict)]
        return self._whole("GET", path, 200, {"total_count": len(found), "incomplete_results": False, "items": items})

    def _whole(self, method: str, path: str, status: int, answer: Json) -> Json:
        whole, wrong = completed(method, path, status, answer)
        self.objections += wrong
        return whole


def _issue(number: int, issue: Issue) -> Json:
    labels: list[Json] = [{"name": label, "color": "ededed"} for label in issue.labels]
    pull: dict[str, Json] = {"pull_request": {"url": "https://elsewhere.example"}} if issue.is_pull else {}
    return {
        "number": number,
        "title": issue.title,
        "body": issue.body,
        "state": "closed" if issue.is_closed else "open",
        "labels": labels,
        "user": {"login": "ada"},
        "assignee": {"login": "ada"},
        "html_url": "javascript:alert(1)",
        "comments": len(issue.comments),
        "type": named(issue.kind),
        "created_at": "2026-05-28T12:00:00Z",
        "updated_at": issue.updated,
        **pull,
    }


def _comments(issue: Issue, asked: Asked) -> Json:
    size, page = asked.number("per_page", 30), asked.number("page", 1)
    return [
        {"body": said.text, "user": {"login": said.author}, "author_association": said.role, "created_at": at(number)}
        for number, said in list(enumerate(issue.comments))[(page - 1) * size : page * size]
    ]
