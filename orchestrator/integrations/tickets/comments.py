"""Leaving a comment on a ticket, and setting its status where the tracker has one of that name.

What a tracker does not take is for a warning, never for a halt: the work itself is done (seed 001 §4, step 6).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import assert_never
from urllib.parse import quote

import httpx
import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import count_of, list_of, object_of, text_of
from orchestrator.integrations.tickets.account import Account
from orchestrator.integrations.tickets.github import api_of
from orchestrator.integrations.tickets.http import LARGEST_ANSWER, Params, Patience, UnfitAnswer
from orchestrator.integrations.tickets.text.adf import to_adf, to_markdown
from orchestrator.integrations.tickets.text.reference import Reference
from orchestrator.integrations.tickets.text.ticket import Tracker

LONGEST_COMMENT = 30_000
"""Characters; Jira takes 32,767 (sources.md §1.11)."""
PAGE = 100


async def post_comment(
    account: Account, reference: Reference, text: str, status: str | None, patience: Patience
) -> str:
    """Why the ticket could not be told, in words; empty if it was. The same words are left once."""
    login = await account.login(patience)
    base = api_of(reference.site.url) if reference.site.kind is Tracker.GITHUB else reference.site.url
    said = fit_text(text)
    try:
        async with (
            asyncio.timeout(patience.ticket),
            httpx.AsyncClient(
                base_url=base,
                headers={"Accept-Encoding": "identity", **login.headers},
                timeout=patience.request,
                follow_redirects=False,
            ) as client,
        ):
            await _tell(client, account, reference, said, status)
    except httpx.HTTPStatusError as error:
        return f"{reference} took no comment: status {error.response.status_code}. {login.mend}"
    except UnfitAnswer as error:
        return str(error)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
        return f"{reference} could not be told: {type(error).__name__}"
    return ""


async def _tell(
    client: httpx.AsyncClient, account: Account, reference: Reference, text: str, status: str | None
) -> None:
    match reference.site.kind:
        case Tracker.JIRA:
            issue = f"/rest/api/{3 if account.user else 2}/issue/{reference.key}"
            body = to_adf(text) if account.user else text
            await _once(client, f"{issue}/comment", {"body": body}, text)
            if status is not None:
                await _set_status(client, issue, status)
        case Tracker.GITHUB:
            issue = f"/repos/{quote(reference.project)}/issues/{reference.number}"
            pages = await _last_pages(client, issue)
            await _once(client, f"{issue}/comments", {"body": text}, text, pages)
        case Tracker.GITLAB:
            path = f"/api/v4/projects/{quote(reference.project, safe='')}/issues/{reference.number}/notes"
            await _once(client, path, {"body": text}, text)
        case _:
            assert_never(reference.site.kind)


async def _last_pages(client: httpx.AsyncClient, issue: str) -> Sequence[int]:
    """The pages with the newest comments of an issue on GitHub, which lists the oldest first, however it is asked."""
    told = object_of(await _asked(client, client.build_request("GET", issue)))
    last = max(-(-count_of(told.get("comments")) // PAGE), 1)
    return range(max(last - 1, 1), last + 1)


async def _once(
    client: httpx.AsyncClient, path: str, body: Mapping[str, object], text: str, pages: Sequence[int] = (1,)
) -> None:
    """Post it, unless the newest comments hold it already."""
    for page in pages:
        newest: Params = {"per_page": PAGE, "maxResults": PAGE, "orderBy": "-created", "sort": "desc", "page": page}
        if _plain(text) in _texts(await _asked(client, client.build_request("GET", path, params=newest))):
            return
    await _asked(client, client.build_request("POST", path, json=dict(body)))


async def _asked(client: httpx.AsyncClient, request: httpx.Request) -> Json:
    """The answer as JSON. Raises HTTPStatusError, and UnfitAnswer for one that is too large or none."""
    host, body = request.url.host, bytearray()
    response = await client.send(request, stream=True)
    try:
        response.raise_for_status()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > LARGEST_ANSWER:
                raise UnfitAnswer(f"{host} answered more than {LARGEST_ANSWER // 1024} KiB to a comment")
    finally:
        await response.aclose()
    try:
        answer: Json = orjson.loads(body) if body else None
    except orjson.JSONDecodeError as error:
        raise UnfitAnswer(f"{host} answered what is no JSON; is its address in [trackers] right?") from error
    return answer


def _texts(answer: Json) -> set[str]:
    found = answer if isinstance(answer, list) else object_of(answer).get("comments")
    return {_plain(_text_of(object_of(one))) for one in list_of(found)}


def _plain(text: str) -> str:
    """A text as it can be known again: trackers change spaces and ends of lines."""
    return " ".join(text.split())


def _text_of(comment: JsonObject) -> str:
    body = comment.get("body")
    return to_markdown(body) if isinstance(body, dict) else text_of(body, 2 * LONGEST_COMMENT)


async def _set_status(client: httpx.AsyncClient, issue: str, status: str) -> None:
    """Take the transition that leads to a status of that name, if the ticket has one; else it stays as it is."""
    answer = await _asked(client, client.build_request("GET", f"{issue}/transitions"))
    for one in map(object_of, list_of(object_of(answer).get("transitions"))):
        if text_of(object_of(one.get("to")).get("name")).casefold() == status.casefold():
            taken = {"transition": {"id": text_of(one.get("id"))}}
            await _asked(client, client.build_request("POST", f"{issue}/transitions", json=taken))
            return


def fit_text(text: str) -> str:
    """A text that is no longer than a comment may be."""
    return text if len(text) <= LONGEST_COMMENT else text[: LONGEST_COMMENT - 40] + "\n\n[… cut; the task has it whole]"
