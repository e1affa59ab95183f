"""Tickets of Jira Cloud (REST version 3) and of Jira servers (version 2, whose texts are wiki markup).

https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/#api-rest-api-3-issue-issueidorkey-get
"""

from collections.abc import Sequence

from pydantic import Field, JsonValue, TypeAdapter

from orchestrator.formats.markdown import cleaned, visible
from orchestrator.integrations.http import HttpClient, Params
from orchestrator.integrations.tickets.text.adf import to_markdown
from orchestrator.integrations.tickets.text.classifier import priority_of, type_of
from orchestrator.integrations.tickets.text.reference import Reference
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
MOST_PAGES = 12
"""Enough for `MOST_COMMENTS` if every second one has restricted visibility."""

_FIELDS = "summary,description,issuetype,status,priority,labels,assignee,created,updated,attachment"


class _Person(TrackerRecord):
    name: str = Field(default="", alias="displayName")


class _File(TrackerRecord):
    filename: str = ""


class _Fields(TrackerRecord):
    summary: str
    description: JsonValue = None
    issuetype: Named | None = None
    status: Named | None = None
    priority: Named | None = None
    labels: tuple[str, ...] = ()
    assignee: _Person | None = None
    created: Moment = None
    updated: Moment = None
    attachment: tuple[_File, ...] = ()


class _Issue(TrackerRecord):
    key: str = Field(pattern=r"^[A-Z][A-Z0-9_]{0,30}-[0-9]{1,12}$")
    fields: _Fields


class _Comment(TrackerRecord):
    author: _Person | None = None
    body: JsonValue = None
    created: Moment = None
    visibility: JsonValue = None


class _Comments(TrackerRecord):
    comments: list[_Comment]
    total: int = 0


_ISSUE, _COMMENTS = TypeAdapter(_Issue), TypeAdapter(_Comments)


async def fetch_jira(http: HttpClient, reference: Reference, version: int) -> Requirement:
    """Return the issue with its newest comments. Raises RemoteError and NoTicket.

    A moved issue has its new key.
    """
    path = f"/rest/api/{version}/issue/{reference.key}"
    issue = await http.get(_ISSUE, path, {"fields": _FIELDS})
    comments = await _comments(http, path)
    fields = issue.fields
    kind, priority = _name(fields.issuetype), _name(fields.priority)
    title = one_name(fields.summary) or issue.key
    description = _markdown(fields.description) or title
    return Requirement(
        key=issue.key,
        title=title,
        text=composed(description, comments, [file.filename for file in fields.attachment], str(reference)),
        type=type_of([kind], fields.labels, title),
        priority=priority_of([priority]),
        tracker=Tracker.JIRA,
        url=f"{reference.site.url}/browse/{issue.key}",
        labels=names(fields.labels),
        status=one_name(_name(fields.status)),
        assignee=one_name(fields.assignee.name if fields.assignee else ""),
        created=fields.created,
        updated=fields.updated,
    )


async def _comments(http: HttpClient, path: str) -> Sequence[TicketComment]:
    """Return the newest comments without restricted visibility; at least one more than are shown if there are more."""
    found: list[TicketComment] = []
    for page in range(MOST_PAGES):
        asked: Params = {"startAt": page * PAGE, "maxResults": PAGE, "orderBy": "-created"}
        answer = await http.get(_COMMENTS, f"{path}/comment", asked)
        for one in answer.comments:
            if one.visibility is None:
                author = one.author.name if one.author else ""
                found.append(TicketComment(author=author, text=_markdown(one.body), at=one.created))
        if len(found) > MOST_COMMENTS or (page + 1) * PAGE >= answer.total or not answer.comments:
            break
    return found


def _markdown(text: JsonValue) -> str:
    return cleaned(to_markdown(text)) if isinstance(text, dict) else visible(to_markdown(text))


def _name(named: Named | None) -> str:
    return named.name if named else ""
