"""Jira on loopback: Jira Cloud with a user, a self-hosted server without.

Comments are stored in `said`, the statuses to which issues were set in `statuses`.
"""

import re
import threading
from base64 import b64encode
from collections.abc import Mapping

from orchestrator.formats.codec import Json
from orchestrator.formats.fields import object_of, text_of
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.text.ticket import Tracker
from tests.fakes.tracker_server import Asked, Issue, Said, TrackerServer, at, named

_PATH = re.compile(r"/rest/api/(?P<version>[23])/issue/(?P<key>[A-Z]+-\d+)(?P<part>/comment|/transitions)?")
_STATUSES = {"11": "To Do", "21": "In Review", "31": "Done"}


class JiraServer(TrackerServer):
    """Stores issues by key; `moved` maps old keys to current ones."""

    def __init__(self, issues: Mapping[str, Issue], token: str = "", user: str = "") -> None:
        super().__init__(issues, token)
        self.user = user
        self.moved: dict[str, str] = {}
        self.said: dict[str, list[Json]] = {}
        self.statuses: dict[str, str] = {}
        self._going = threading.Event()
        self._going.set()

    @property
    def account(self) -> TrackerAccount:
        return TrackerAccount(
            kind=Tracker.JIRA, url=self.url, user=self.user, token=self.token, setting="JIRA_API_TOKEN"
        )

    def authorization(self) -> str:
        if not self.user:
            return super().authorization()
        return "Basic " + b64encode(f"{self.user}:{self.token}".encode()).decode()

    def status_of(self, asked: Asked) -> int:
        """Jira answers a transition without content."""
        return 204 if asked.method == "POST" and asked.path.endswith("/transitions") else super().status_of(asked)

    def answer(self, asked: Asked) -> Json:
        if asked.path in {"/rest/api/3/search/jql", "/rest/api/2/search"}:
            return self._found(asked) if (asked.path == "/rest/api/3/search/jql") == bool(self.user) else None
        found = _PATH.fullmatch(asked.path)
        if not found or (found["version"] == "3") != bool(self.user):
            return None
        key = self.moved.get(found["key"], found["key"])
        issue = self.issues.get(key)
        if issue is None:
            return None
        match found["part"], asked.method:
            case "/comment", "POST":
                self.said.setdefault(key, []).append(asked.body["body"])
                self._going.wait()
                return {"id": "1"}
            case "/comment", _:
                return _comments(issue, self.said.get(key, []), asked)
            case "/transitions", "POST":
                self.statuses[key] = _STATUSES[text_of(object_of(asked.body["transition"])["id"])]
                return {}
            case "/transitions", _:
                return {"transitions": [{"id": one, "to": named(name)} for one, name in _STATUSES.items()]}
            case _:
                return _issue(key, issue)

    def _found(self, asked: Asked) -> Json:
        """Return a page of the open issues with the labels that a JQL names, as the two kinds of Jira count pages."""
        jql = asked.query["jql"]
        project = re.search(r'project = "(\w+)"', jql)
        labels = set(re.findall(r'labels = "([^"]+)"', jql))
        keys = [
            key
            for key, issue in self.issues.items()
            if not issue.is_closed and labels <= set(issue.labels) and (not project or key.startswith(f"{project[1]}-"))
        ]
        most = asked.number("maxResults", 50)
        start = int(asked.query.get("nextPageToken", "page-0").removeprefix("page-")) if self.user else 0
        start = start or asked.number("startAt", 0)
        page: list[Json] = [_issue(key, self.issues[key]) for key in keys[start : start + most]]
        if not self.user:
            return {"startAt": start, "maxResults": most, "total": len(keys), "issues": page}
        is_last = start + most >= len(keys)
        more: dict[str, Json] = {} if is_last else {"nextPageToken": f"page-{start + most}"}
        return {"issues": page, "isLast": is_last, **more}

    def hold(self) -> None:
        """From now on accept comments without a response."""
        self._going.clear()

    def let_go(self) -> None:
        """Respond again."""
        self._going.set()


def _issue(key: str, issue: Issue) -> Json:
    files: list[Json] = [{"filename": name, "content": "https://elsewhere.example/file"} for name in issue.files]
    return {
        "id": "10234",
        "key": key,
        "fields": {
            "summary": issue.title,
            "description": issue.body,
            "issuetype": named(issue.kind),
            "status": (
                {"name": "Done", "statusCategory": {"key": "done"}}
                if issue.is_closed
                else {"name": "To Do", "statusCategory": {"key": "new"}}
            ),
            "priority": named(issue.priority),
            "labels": [*issue.labels],
            "assignee": {"displayName": "Ada Lovelace", "accountId": "1"},
            "created": "2026-05-28T12:00:00.000+0000",
            "updated": issue.updated,
            "attachment": files,
        },
    }


def _comments(issue: Issue, ours: list[Json], asked: Asked) -> Json:
    start, most = asked.number("startAt", 0), asked.number("maxResults", 50)
    numbered = list(enumerate((*issue.comments, *(Said(author="Robot", text=text) for text in ours))))
    if asked.query.get("orderBy") == "-created":
        numbered.reverse()
    page: list[Json] = [
        {
            "author": {"displayName": said.author},
            "body": said.text,
            "created": at(number),
            **({"visibility": {"type": "role", "value": "Administrators"}} if said.apart else {}),
        }
        for number, said in numbered[start : start + most]
    ]
    return {"startAt": start, "maxResults": most, "total": len(numbered), "comments": page}
