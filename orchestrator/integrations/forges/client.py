"""The HTTP client as forges use it: blocking, with lists that come in pages."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from orchestrator.formats.codec import Json, JsonObject, time_of
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import Refused, UnfitAnswer
from orchestrator.integrations.http import HttpClient, Method, Params, Patience
from orchestrator.redaction.display import escape_text

PATIENCE = Patience(request=300.0, tries=1, redirects=0)
"""Nothing is repeated here: the publisher waits and repeats the whole effect, and can be cancelled meanwhile.

Redirects are not followed: a repository that has moved refuses changes at its old address.
"""
PER_PAGE = 100
MOST_PAGES = 50


LONG = 65_536
"""Characters of a body."""

TAIL = 16 * 1024
"""Bytes of a log's end."""

URL = 2_000
"""Characters of an address."""


class ForgeClient:
    """Speaks to the API of one forge as one account.

    Every method blocks and raises RemoteError. Requests run on an event loop of the client's own: only there can an
    answer be given up that comes byte by byte.
    """

    def __init__(
        self, api: str, login: Credentials, headers: Mapping[str, str] | None = None, patience: Patience = PATIENCE
    ) -> None:
        self._name = login.host
        self._http = HttpClient(api, login, patience, headers=headers)
        self._loop = asyncio.Runner()

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._http.aclose())
        self._loop.close()

    def request(self, method: Method, path: str, body: JsonObject | None = None, params: Params | None = None) -> Json:
        """Return the answer to one request; `path` is below the API, or an address on the same server."""
        return self._loop.run(self._http.request(method, path, body, params))

    def pages(self, path: str, params: Params | None = None) -> Iterator[JsonObject]:
        """Return every item of a list, page by page. Raises Refused for more than 5,000 of them."""
        asked: Params | None = {**(params or {}), "per_page": PER_PAGE}
        for _ in range(MOST_PAGES):
            response = self._loop.run(self._http.send("GET", path, params=asked))
            yield from map(object_of, list_of(self._http.parse(response)))
            following = response.links.get("next", {}).get("url")
            if following is None:
                return
            path, asked = following, None
        raise Refused(f"{self._name} lists more than {MOST_PAGES * PER_PAGE} items at {escape_text(path)}")

    def tail(self, path: str, size: int) -> str:
        """Return the last `size` bytes of a log, "" where it cannot be read."""
        return self._loop.run(self._http.tail(path, size))


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects of a list."""
    return [object_of(item) for item in list_of(value)]


def number_of(value: Json, what: str) -> int:
    """Return an id or a number. Raises UnfitAnswer, which names `what` is missing."""
    if type(value) is not int:
        raise UnfitAnswer(f"the forge's answer has no {what}; is the address of its API right?")
    return value


def name_of(value: Json, field: str) -> str:
    """Return one text of an object that may be missing, such as the login of a deleted user."""
    return text_of(object_of(value).get(field))


def at_of(value: Json) -> datetime:
    """Return the time in a field; the epoch if there is none, so that it counts as oldest."""
    try:
        return time_of(text_of(value))
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
