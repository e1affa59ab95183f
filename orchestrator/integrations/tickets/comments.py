"""Leaving a comment on a ticket, and setting its status where the tracker has one of that name.

If the tracker refuses, a warning is logged and the task continues: the work itself is done.
"""

import asyncio
from collections.abc import Sequence
from typing import assert_never
from urllib.parse import quote

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import count_of, list_of, object_of, text_of
from orchestrator.integrations.errors import RemoteError
from orchestrator.integrations.http import HttpClient, Params, Patience
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.text.adf import to_adf, to_markdown
from orchestrator.integrations.tickets.text.reference import Reference
from orchestrator.integrations.tickets.text.ticket import Tracker, squeezed

LONGEST_COMMENT = 30_000
"""Characters; Jira takes 32,767."""
PAGE = 100


async def post_comment(
    account: TrackerAccount, reference: Reference, text: str, status: str | None, patience: Patience
) -> str:
    """Post a comment unless the ticket has it already, set the status, and return why that failed, or ""."""
    try:
        async with asyncio.timeout(patience.ticket), await account.client(reference, patience) as http:
            await _post(http, account, reference, fit_text(text), status)
    except RemoteError as error:
        return f"{reference} took no comment: {error}"
    except TimeoutError:
        return f"{reference} took no comment within {patience.ticket:g} s"
    return ""


async def _post(http: HttpClient, account: TrackerAccount, reference: Reference, text: str, status: str | None) -> None:
    match reference.site.kind:
        case Tracker.JIRA:
            issue = f"/rest/api/{3 if account.user else 2}/issue/{reference.key}"
            newest: Params = {"maxResults": PAGE, "orderBy": "-created"}
            await _post_once(http, f"{issue}/comment", to_adf(text) if account.user else text, text, [newest])
            if status is not None:
                await _set_status(http, issue, status)
        case Tracker.GITHUB:
            issue = f"/repos/{quote(reference.project)}/issues/{reference.number}"
            pages: list[Params] = [{"per_page": PAGE, "page": page} for page in await _last_pages(http, issue)]
            await _post_once(http, f"{issue}/comments", text, text, pages)
        case Tracker.GITLAB:
            path = f"/api/v4/projects/{quote(reference.project, safe='')}/issues/{reference.number}/notes"
            await _post_once(http, path, text, text, [{"per_page": PAGE, "order_by": "created_at", "sort": "desc"}])
        case _:
            assert_never(reference.site.kind)


async def _last_pages(http: HttpClient, issue: str) -> Sequence[int]:
    """Return the pages with the newest comments of an issue on GitHub, which always lists the oldest first."""
    told = object_of(await http.request("GET", issue))
    last = max(-(-count_of(told.get("comments")) // PAGE), 1)
    return range(max(last - 1, 1), last + 1)


async def _post_once(http: HttpClient, path: str, body: Json, text: str, pages: Sequence[Params]) -> None:
    """Post a comment with this body, unless one of the newest comments, which these requests list, has its text."""
    for page in pages:
        if squeezed(text) in _texts(await http.request("GET", path, params=page)):
            return
    await http.request("POST", path, {"body": body})


def _texts(answer: Json) -> set[str]:
    found = answer if isinstance(answer, list) else object_of(answer).get("comments")
    return {squeezed(_text_of(object_of(one))) for one in list_of(found)}


def _text_of(comment: JsonObject) -> str:
    body = comment.get("body")
    return to_markdown(body) if isinstance(body, dict) else text_of(body, 2 * LONGEST_COMMENT)


async def _set_status(http: HttpClient, issue: str, status: str) -> None:
    """Take the transition to the status of that name; without one the ticket stays as it is."""
    answer = object_of(await http.request("GET", f"{issue}/transitions"))
    for one in map(object_of, list_of(answer.get("transitions"))):
        if text_of(object_of(one.get("to")).get("name")).casefold() == status.casefold():
            await http.request("POST", f"{issue}/transitions", {"transition": {"id": text_of(one.get("id"))}})
            return


def fit_text(text: str) -> str:
    """Return a text cut to what a comment can hold."""
    return text if len(text) <= LONGEST_COMMENT else text[: LONGEST_COMMENT - 40] + "\n\n[… cut; the task has it whole]"
