"""Issues and pull requests of GitHub and GitHub Enterprise.

https://docs.github.com/en/rest/issues/issues#get-an-issue; a pull request is an issue there.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.markdown import visible
from orchestrator.integrations.errors import NoTicket
from orchestrator.integrations.http import HttpClient
from orchestrator.integrations.tickets.text.classifier import priority_of, type_of
from orchestrator.integrations.tickets.text.reference import Reference, Site, TicketQuery
from orchestrator.integrations.tickets.text.ticket import (
    MOST_COMMENTS,
    Moment,
    Named,
    Requirement,
    TicketComment,
    Tracker,
    TrackerRecord,
    composed,
    names,
    one_name,
)

PAGE = 20
LIST_PAGE, MOST_LISTED = 100, 1000
"""Issues on a page of a list, and how many a list may have in all; GitHub's search finds no more."""

_STRANGERS = frozenset({"", "NONE", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR"})


class _Person(TrackerRecord):
    login: str = ""


class _Issue(TrackerRecord):
    number: int
    title: str
    body: str | None = None
    state: str = ""
    labels: tuple[Named | str, ...] = ()
    assignee: _Person | None = None
    html_url: str = ""
    comments: int = 0
    pull_request: JsonValue = None
    type: Named | None = None
    created_at: Moment = None
    updated_at: Moment = None


class _Comment(TrackerRecord):
    body: str | None = None
    user: _Person | None = None
    author_association: str = ""
    created_at: Moment = None


class _Found(TrackerRecord):
    items: tuple[_Issue, ...] = ()


_ISSUE, _COMMENTS = TypeAdapter(_Issue), TypeAdapter(list[_Comment])
_ISSUES, _FOUND = TypeAdapter(list[_Issue]), TypeAdapter(_Found)


async def fetch_github(http: HttpClient, reference: Reference) -> Requirement:
    """Return the issue with its newest comments. Raises RemoteError and NoTicket.

    A pull request is a code review, whatever its labels say.
    """
    path = f"/repos/{reference.project}/issues/{reference.number}"
    issue = await http.get(_ISSUE, path)
    return _requirement(reference, issue, await _comments(http, path, issue.comments))


async def list_github(http: HttpClient, site: Site, query: TicketQuery) -> tuple[Requirement, ...]:
    """Return the open issues of a repository that a query finds, oldest first, without their comments.

    https://docs.github.com/en/rest/issues/issues#list-repository-issues, and with words to search for
    https://docs.github.com/en/rest/search/search#search-issues-and-pull-requests. Raises RemoteError and NoTicket.
    """
    found: list[_Issue] = []
    for page in range(1, -(-MOST_LISTED // LIST_PAGE) + 2):
        issues = await _page(http, query, {"per_page": LIST_PAGE, "page": page, "sort": "created"})
        found += [issue for issue in issues if not issue.pull_request]
        if len(issues) < LIST_PAGE:
            break
    if len(found) > MOST_LISTED:
        raise NoTicket(f"{query} finds more than {MOST_LISTED} issues; choose fewer by a label or a query")
    references = (Reference(site=site, project=query.project, number=issue.number) for issue in found)
    return tuple(_requirement(one, issue, ()) for one, issue in zip(references, found, strict=True))


async def _page(http: HttpClient, query: TicketQuery, params: Mapping[str, str | int]) -> Sequence[_Issue]:
    if not query.words:
        chosen = {"labels": ",".join(query.labels)} if query.labels else {}
        path = f"/repos/{query.project}/issues"
        return await http.get(_ISSUES, path, {**params, **chosen, "state": "open", "direction": "asc"})
    labels = [f'label:"{label}"' for label in query.labels]
    words = " ".join((f"repo:{query.project}", "is:issue", "is:open", *labels, query.words))
    return (await http.get(_FOUND, "/search/issues", {**params, "q": words, "order": "asc"})).items


def _requirement(reference: Reference, issue: _Issue, comments: Sequence[TicketComment]) -> Requirement:
    labels = [label if isinstance(label, str) else label.name for label in issue.labels]
    kinds = [issue.type.name] if issue.type else []
    title = one_name(issue.title) or reference.key
    pages = "pull" if issue.pull_request else "issues"
    here = f"{reference.site.url}/{reference.project}/{pages}/{reference.number}"
    return Requirement(
        key=reference.key,
        title=title,
        text=composed(visible(issue.body or "") or title, comments, source=str(reference)),
        type=TicketType.CODE_REVIEW if issue.pull_request else type_of(kinds, labels, title),
        priority=priority_of(labels),
        tracker=Tracker.GITHUB,
        url=here,
        labels=names(labels),
        status=one_name(issue.state),
        assignee=one_name(issue.assignee.login if issue.assignee else ""),
        created=issue.created_at,
        updated=issue.updated_at,
    )


async def _comments(http: HttpClient, path: str, count: int) -> Sequence[TicketComment]:
    """Return the newest comments, read from the last pages, because GitHub lists the oldest first.

    On a public repository anybody can comment; authors without a role in it are marked.
    """
    last = -(-count // PAGE)
    first = max(last - -(-MOST_COMMENTS // PAGE), 1)
    found: list[TicketComment] = []
    for page in range(first, last + 1):
        for one in await http.get(_COMMENTS, f"{path}/comments", {"per_page": PAGE, "page": page}):
            author = one.user.login if one.user else ""
            stranger = " (no role in the repository)" if one.author_association in _STRANGERS else ""
            found.append(TicketComment(author=author + stranger, text=one.body or "", at=one.created_at))
    return found
