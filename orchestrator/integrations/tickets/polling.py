"""Which tickets a query finds on a tracker now, and whether one of them is still open.

A poll lists tickets without their texts; each is fetched by its address when it becomes a task.

* GitHub: https://docs.github.com/en/rest/issues/issues#list-repository-issues
* GitLab: https://docs.gitlab.com/api/issues/#list-project-issues
* Jira Cloud: https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-search/, by tokens of pages;
  a self-hosted Jira: https://docs.atlassian.com/software/jira/docs/api/REST/9.17.0/#api/2/search, by offsets
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar, assert_never
from urllib.parse import quote

from pydantic import Field, JsonValue, TypeAdapter

from orchestrator.integrations.errors import NotFound
from orchestrator.integrations.http import HttpClient, Params
from orchestrator.integrations.tickets.text.reference import Reference, Site
from orchestrator.integrations.tickets.text.ticket import Named, Tracker, TrackerRecord, one_name

T = TypeVar("T")

PAGE, MOST_FOUND = 100, 500
"""Tickets on a page, and how many of a query are looked at, the oldest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketSearch:
    """Open tickets of a project with all of these labels; on Jira a JQL instead of the labels, if one is given."""

    tracker: Tracker
    project: str = ""
    labels: tuple[str, ...] = ()
    jql: str = ""

    def __str__(self) -> str:
        if self.jql:
            return f"the tickets of {self.jql!r:.200}"
        labels = f" with {' and '.join(self.labels)}" if self.labels else ""
        return f"the open tickets of {self.project}{labels}"

    @property
    def as_jql(self) -> str:
        """The query in Jira's language."""
        if self.jql:
            return self.jql
        terms = [f"project = {_quoted(self.project)}", *(f"labels = {_quoted(label)}" for label in self.labels)]
        return " AND ".join([*terms, "statusCategory != Done"]) + " ORDER BY created ASC"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTicket:
    """A ticket that a query finds; `updated` changes whenever somebody changes the ticket."""

    key: str
    url: str
    title: str
    updated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What a query finds; `tickets` is None if that has not changed since the poll that gave the same `etag`.

    It is not `whole` if it finds more than are looked at.
    """

    tickets: tuple[FoundTicket, ...] | None
    etag: str = ""
    whole: bool = True


class Standing(StrEnum):
    """How a ticket is on its tracker; what is gone was deleted, or is hidden from our account."""

    OPEN = "open"
    CLOSED = "closed"
    GONE = "gone"


class _Issue(TrackerRecord):
    number: int = Field(gt=0)
    title: str = ""
    state: str = ""
    pull_request: JsonValue = None
    updated_at: str = ""


class _GitLabIssue(TrackerRecord):
    iid: int = Field(gt=0)
    title: str = ""
    state: str = ""
    updated_at: str = ""


class _Category(TrackerRecord):
    key: str = ""


class _Status(Named):
    category: _Category = Field(default=_Category(), alias="statusCategory")


class _Fields(TrackerRecord):
    summary: str = ""
    updated: str = ""
    status: _Status | None = None


class _JiraIssue(TrackerRecord):
    key: str = Field(pattern=r"^[A-Z][A-Z0-9_]{0,30}-[0-9]{1,12}$")
    fields: _Fields = _Fields()


class _JiraPage(TrackerRecord):
    issues: list[_JiraIssue]
    next_page: str | None = Field(default=None, alias="nextPageToken")
    total: int = 0


_ISSUE, _ISSUES = TypeAdapter(_Issue), TypeAdapter(list[_Issue])
_GITLAB_ISSUE, _GITLAB_ISSUES = TypeAdapter(_GitLabIssue), TypeAdapter(list[_GitLabIssue])
_JIRA_ISSUE, _JIRA_PAGE = TypeAdapter(_JiraIssue), TypeAdapter(_JiraPage)


async def poll_tickets(http: HttpClient, site: Site, search: TicketSearch, etag: str, *, cloud: bool) -> Poll:
    """Return what a query finds, oldest first; `cloud` tells Jira Cloud from a self-hosted one. Raises RemoteError."""
    match search.tracker:
        case Tracker.GITHUB:
            return await _poll_github(http, site, search, etag)
        case Tracker.GITLAB:
            return await _poll_gitlab(http, site, search, etag)
        case Tracker.JIRA:
            return await _poll_jira(http, site, search, cloud=cloud)
        case _:
            assert_never(search.tracker)


async def standing_of(http: HttpClient, reference: Reference, *, cloud: bool) -> Standing:
    """Return how one ticket is now. Raises RemoteError."""
    try:
        is_closed = await _is_closed(http, reference, cloud=cloud)
    except NotFound:
        return Standing.GONE
    return Standing.CLOSED if is_closed else Standing.OPEN


async def _is_closed(http: HttpClient, reference: Reference, *, cloud: bool) -> bool:
    match reference.site.kind:
        case Tracker.GITHUB:
            return (await http.get(_ISSUE, f"/repos/{reference.project}/issues/{reference.number}")).state == "closed"
        case Tracker.GITLAB:
            path = f"/api/v4/projects/{quote(reference.project, safe='')}/issues/{reference.number}"
            return (await http.get(_GITLAB_ISSUE, path)).state == "closed"
        case Tracker.JIRA:
            path = f"/rest/api/{3 if cloud else 2}/issue/{reference.key}"
            status = (await http.get(_JIRA_ISSUE, path, {"fields": "status"})).fields.status
            return status is not None and status.category.key == "done"
        case _:
            assert_never(reference.site.kind)


async def _poll_github(http: HttpClient, site: Site, search: TicketSearch, etag: str) -> Poll:
    asked: Params = {"state": "open", "sort": "created", "direction": "asc", **_labels(search)}
    listed = await _open_issues(http, _ISSUES, f"/repos/{search.project}/issues", asked, etag)
    tickets = (
        FoundTicket(
            key=f"{search.project}#{one.number}",
            url=f"{site.url}/{search.project}/issues/{one.number}",
            title=one_name(one.title),
            updated=one.updated_at,
        )
        for one in listed.issues or ()
        if not one.pull_request
    )
    return listed.poll(tickets)


async def _poll_gitlab(http: HttpClient, site: Site, search: TicketSearch, etag: str) -> Poll:
    asked: Params = {"state": "opened", "order_by": "created_at", "sort": "asc", **_labels(search)}
    path = f"/api/v4/projects/{quote(search.project, safe='')}/issues"
    listed = await _open_issues(http, _GITLAB_ISSUES, path, asked, etag)
    tickets = (
        FoundTicket(
            key=f"{search.project}#{one.iid}",
            url=f"{site.url}/{search.project}/-/issues/{one.iid}",
            title=one_name(one.title),
            updated=one.updated_at,
        )
        for one in listed.issues or ()
    )
    return listed.poll(tickets)


def _labels(search: TicketSearch) -> Params:
    return {"labels": ",".join(search.labels)} if search.labels else {}


@dataclass(frozen=True, slots=True)
class _Listed(Generic[T]):
    """The open issues of a project, the ETag of the list and whether it is whole; None if it has not changed."""

    issues: list[T] | None
    etag: str
    whole: bool = True

    def poll(self, tickets: Iterable[FoundTicket]) -> Poll:
        """Return what was found, of which these are tickets."""
        return Poll(tickets=None if self.issues is None else tuple(tickets), etag=self.etag, whole=self.whole)


async def _open_issues(http: HttpClient, kind: TypeAdapter[list[T]], path: str, asked: Params, etag: str) -> _Listed[T]:
    """Return the open issues, page by page. The ETag is that of the first page, so a list that has more gets none."""
    found: list[T] = []
    first = await http.get_changed(kind, path, {**asked, "per_page": PAGE, "page": 1}, etag=etag)
    if first is None:
        return _Listed(None, etag)
    page, now = first
    while len(page) == PAGE and len(found) + PAGE < MOST_FOUND:
        found += page
        page = await http.get(kind, path, {**asked, "per_page": PAGE, "page": len(found) // PAGE + 1})
    found += page
    return _Listed(found, now if len(found) < PAGE else "", whole=len(page) < PAGE)


async def _poll_jira(http: HttpClient, site: Site, search: TicketSearch, *, cloud: bool) -> Poll:
    path = "/rest/api/3/search/jql" if cloud else "/rest/api/2/search"
    asked: dict[str, str | int | bool] = {"jql": search.as_jql, "fields": "summary,updated", "maxResults": PAGE}
    found: list[_JiraIssue] = []
    while True:
        page = await http.get(_JIRA_PAGE, path, asked)
        found += page.issues
        more = bool(page.next_page) if cloud else len(found) < page.total and bool(page.issues)
        if not more or len(found) >= MOST_FOUND:
            return Poll(tickets=_of_jira(site, found), whole=not more)
        asked |= {"nextPageToken": page.next_page or ""} if cloud else {"startAt": len(found)}


def _of_jira(site: Site, found: Sequence[_JiraIssue]) -> tuple[FoundTicket, ...]:
    return tuple(
        FoundTicket(
            key=one.key,
            url=f"{site.url}/browse/{one.key}",
            title=one_name(one.fields.summary),
            updated=one.fields.updated,
        )
        for one in found
    )


def _quoted(text: str) -> str:
    """Return a string of JQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
