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


class GitLabServer(TrackerServer):
    """Stores issues by `group/project#number`."""

    @property
    def account(self) -> TrackerAccount:
        return TrackerAccount(kind=Tracker.GITLAB, url=self.url, token=self.token, setting="GITLAB_TOKEN")

    def answer(self, asked: Asked) -> Json:
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


def _issue(number: int, issue: Issue) -> Json:
    return {
        "iid": number,
        "title": issue.title,
        "description": issue.body,
        "state": "opened",
        "labels": [*issue.labels],
        "issue_type": issue.kind or "issue",
        "severity": issue.priority or "UNKNOWN",
        "assignee": {"username": "ada"},
        "user_notes_count": sum(not said.system for said in issue.comments),
        "created_at": "2026-05-28T12:00:00.000Z",
        "updated_at": "2026-05-28T12:00:00.000Z",
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
