"""Issues of GitLab (REST version 4): https://docs.gitlab.com/api/issues/#single-project-issue."""

from collections.abc import Sequence
from urllib.parse import quote

from pydantic import TypeAdapter

from orchestrator.formats.markdown import visible
from orchestrator.integrations.http import HttpClient, Params
from orchestrator.integrations.tickets.text.classifier import priority_of, type_of
from orchestrator.integrations.tickets.text.reference import Reference
from orchestrator.integrations.tickets.text.ticket import (
    MOST_COMMENTS,
    Moment,
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
"""System notes (labels, milestones) are listed among the comments, so more is read than is shown."""


class _Person(TrackerRecord):
    username: str = ""


class _Issue(TrackerRecord):
    iid: int
    title: str
    description: str | None = None
    state: str = ""
    labels: tuple[str, ...] = ()
    issue_type: str | None = None
    severity: str | None = None
    assignee: _Person | None = None
    user_notes_count: int = 0
    created_at: Moment = None
    updated_at: Moment = None


class _Note(TrackerRecord):
    body: str = ""
    author: _Person | None = None
    system: bool = False
    internal: bool = False
    confidential: bool = False
    created_at: Moment = None


_ISSUE, _NOTES = TypeAdapter(_Issue), TypeAdapter(list[_Note])


async def fetch_gitlab(http: HttpClient, reference: Reference) -> Requirement:
    """Return the issue with its newest comments. Raises RemoteError and NoTicket."""
    path = f"/api/v4/projects/{quote(reference.project, safe='')}/issues/{reference.number}"
    issue = await http.get(_ISSUE, path)
    comments = await _comments(http, path) if issue.user_notes_count else ()
    kinds = [issue.issue_type] if issue.issue_type and issue.issue_type != "issue" else []
    title = one_name(issue.title) or reference.key
    return Requirement(
        key=reference.key,
        title=title,
        text=composed(visible(issue.description or "") or title, comments, source=str(reference)),
        type=type_of(kinds, issue.labels, title),
        priority=priority_of([issue.severity or "", *issue.labels]),
        tracker=Tracker.GITLAB,
        url=f"{reference.site.url}/{reference.project}/-/issues/{reference.number}",
        labels=names(issue.labels),
        status=one_name(issue.state),
        assignee=one_name(issue.assignee.username if issue.assignee else ""),
        created=issue.created_at,
        updated=issue.updated_at,
    )


async def _comments(http: HttpClient, path: str) -> Sequence[TicketComment]:
    """Return the newest comments of people; internal ones are left out, because the work may become public."""
    found: list[TicketComment] = []
    for page in range(1, MOST_PAGES + 1):
        asked: Params = {"sort": "desc", "order_by": "created_at", "per_page": PAGE, "page": page}
        notes = await http.get(_NOTES, f"{path}/notes", asked)
        for note in notes:
            if not (note.system or note.internal or note.confidential):
                author = note.author.username if note.author else ""
                found.append(TicketComment(author=author, text=note.body, at=note.created_at))
        if len(notes) < PAGE or len(found) > MOST_COMMENTS:
            break
    return found
