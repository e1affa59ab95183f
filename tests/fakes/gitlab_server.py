"""GitLab on loopback."""

import re
from urllib.parse import unquote

from orchestrator.formats.codec import Json
from orchestrator.formats.fields import text_of
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.text.ticket import Tracker
from tests.fakes.gitlab_description import answer_objections, objections
from tests.fakes.tracker_server import Asked, Issue, TrackerServer, at

_PATH = re.compile(r"/api/v4/projects/(?P<project>[^/]+)/issues/(?P<number>\d+)(?P<notes>/notes)?")

_LIST = re.compile(r"/api/v4/projects/(?P<project>[^/]+)/issues")


class GitLabServer(TrackerServer):
    """Stores issues by `group/project#number`."""

    @property
    def account(self) -> TrackerAccount:
        return TrackerAccount(kind=Tracker.GITLAB, url=self.url, token=self.token, setting="GITLAB_TOKEN")

    def answer(self, asked: Asked) -> Json:
        if listing := _LIST.fullmatch(asked.path):
            return self._listed(asked, unquote(listing["project"]))
        found = _PATH.fullmatch(asked.path)
        issue = self.issues.get(f"{unquote(found['project'])}#{found['number']}") if found else None
        if found is None or issue is None:
            return None
        path = unquote(asked.path.removeprefix("/api/v4"))
        self.objections += objections(asked.method, path, asked.query, asked.body)
        if asked.method == "POST":
            told = self.take(f"{unquote(found['project'])}#{found['number']}", text_of(asked.body["body"], 40_000))
        else:
            told = _notes(issue, asked) if found["notes"] else _issue(int(found["number"]), issue)
        self.objections += answer_objections(asked.method, path, self.status_of(asked), told)
        return told

    def _listed(self, asked: Asked, project: str) -> Json:
        """Return a page of the open issues of a project that have all labels."""
        path, labels = unquote(asked.path.removeprefix("/api/v4")), asked.query.get("labels", "").split(",")
        self.objections += objections("GET", path, asked.query, {})
        found = [
            _issue(int(name.rpartition("#")[2]), issue)
            for name, issue in self.issues.items()
            if name.startswith(f"{project}#") and not issue.is_closed and set(filter(None, labels)) <= set(issue.labels)
        ]
        size, page = asked.number("per_page", 20), asked.number("page", 1)
        told: Json = found[(page - 1) * size : page * size]
        self.objections += answer_objections("GET", path, 200, told)
        return told


def _issue(number: int, issue: Issue) -> Json:
    return {
        "iid": number,
        "title": issue.title,
        "description": issue.body,
        "state": "closed" if issue.is_closed else "opened",
        "labels": [*issue.labels],
        "issue_type": issue.kind or "issue",
        "severity": issue.priority or "UNKNOWN",
        "assignee": {"username": "ada"},
        "user_notes_count": sum(not said.system for said in issue.comments),
        "created_at": "2026-05-28T12:00:00.000Z",
        "updated_at": issue.updated,
    }


def _notes(issue: Issue, asked: Asked) -> Json:
    size, page = asked.number("per_page", 20), asked.number("page", 1)
    newest_first = list(enumerate(issue.comments))[::-1]
    return [
        {
            "body": said.text,
            "author": {"username": said.author},
            "system": said.system,
            "internal": said.apart,
            "created_at": at(number),
        }
        for number, said in newest_first[(page - 1) * size : page * size]
    ]
