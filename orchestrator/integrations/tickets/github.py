"""Issues and pull requests of GitHub and GitHub Enterprise.

https://docs.github.com/en/rest/issues/issues#get-an-issue; a pull request is an issue there.
"""

from collections.abc import Sequence

from pydantic import JsonValue, TypeAdapter

from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.markdown import visible
from orchestrator.integrations.tickets.answers import Answer, Moment, Named
from orchestrator.integrations.tickets.http import HttpClient
from orchestrator.integrations.tickets.text.classifier import priority_of, type_of
from orchestrator.integrations.tickets.text.reference import Reference
from orchestrator.integrations.tickets.text.ticket import MOST_COMMENTS, Comment, Requirement, Tracker, composed, names

PAGE = 20

_STRANGERS = frozenset({"", "NONE", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR"})


class _Person(Answer):
    login: str = ""


class _Issue(Answer):
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


class _Comment(Answer):
    body: str | None = None
    user: _Person | None = None
    author_association: str = ""
    created_at: Moment = None


_ISSUE, _COMMENTS = TypeAdapter(_Issue), TypeAdapter(list[_Comment])


def api_of(url: str) -> str:
    """Where the API is of a GitHub that people open at `url`."""
    scheme, _, host = url.partition("://")
    if host == "github.com" or host.endswith(".ghe.com"):
        return f"{scheme}://api.{host}"
    return f"{url}/api/v3"


async def fetch_github(web: HttpClient, reference: Reference) -> Requirement:
    """The issue with the newest of its comments; raises TrackerError and NoTicket.

    A pull request is a thing to be reviewed, whatever its labels say.
    """
    path = f"/repos/{reference.project}/issues/{reference.number}"
    issue = await web.ask(_ISSUE, path)
    comments = await _comments(web, path, issue.comments)
    labels = [label if isinstance(label, str) else label.name for label in issue.labels]
    kinds = [issue.type.name] if issue.type else []
    title = "".join(names([issue.title])) or reference.key
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
        status="".join(names([issue.state])),
        assignee="".join(names([issue.assignee.login])) if issue.assignee else "",
        created=issue.created_at,
        updated=issue.updated_at,
    )


async def _comments(web: HttpClient, path: str, count: int) -> Sequence[Comment]:
    """The newest comments, read from the last pages, for GitHub gives the oldest first.

    On a public repository anybody can comment; who has nothing to do with it is marked as such.
    """
    last = -(-count // PAGE)
    first = max(last - -(-MOST_COMMENTS // PAGE), 1)
    found: list[Comment] = []
    for page in range(first, last + 1):
        for one in await web.ask(_COMMENTS, f"{path}/comments", {"per_page": PAGE, "page": page}):
            author = one.user.login if one.user else ""
            stranger = " (a stranger to the repository)" if one.author_association in _STRANGERS else ""
            found.append(Comment(author=author + stranger, text=one.body or "", at=one.created_at))
    return found
