"""HTTP as forges speak it: JSON, pages, limits of an account; every answer bounded, every failure a ForgeError.

Whoever asks waits, on an event loop that nobody else has: only there can an answer be given up whose bytes, from the
first of its head to the last of its body, come one by one.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import httpx
import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import line_of, list_of, object_of
from orchestrator.integrations.forges.errors import (
    AccessDenied,
    AuthenticationFailed,
    ForgeBusy,
    ForgeError,
    ForgeRefused,
    ForgeUnreachable,
    NotThere,
)
from orchestrator.redaction.display import escape_text

Came = TypeVar("Came")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Params = Mapping[str, str | int | bool]

PATIENCE = httpx.Timeout(30.0, connect=10.0)
"""Seconds without a byte."""
LONGEST_READING = 300.0
"""Seconds for one answer as a whole, its head included."""
MOST_REDIRECTS = 3
_BROKEN = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
"""What httpx raises for a connection that breaks off, and for a redirect to what is no address (the last two)."""

LARGEST_ANSWER = 16 * 1024 * 1024
LARGEST_LOG = 256 * 1024 * 1024
PER_PAGE = 100
MOST_PAGES = 50
_AS_IT_IS = {"Accept-Encoding": "identity"}
"""An answer that unpacks to a thousand times its size could not be stopped in time."""
_SOON, _LATER, _LATEST = 10.0, 60.0, 86_400.0
_SAID = 500
_LEVELS = 4


class HttpClient:
    """Speaks to one API as one account; `headers` carry the login, which goes to that server alone."""

    def __init__(self, api: str, headers: Mapping[str, str], name: str) -> None:
        _must_be_safe(api)
        self._name = name
        self._api = api.rstrip("/")
        self._loop = asyncio.Runner()
        self._client = httpx.AsyncClient(
            headers={"User-Agent": "orchestrator", **_AS_IT_IS, **headers}, timeout=PATIENCE, follow_redirects=False
        )

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._client.aclose())
        self._loop.close()

    def ask(self, method: Method, path: str, body: JsonObject | None = None, params: Params | None = None) -> Json:
        """What the forge answers to one request; `path` is below the API, or a whole address of the same server."""
        response = self._sent(method, path, body, params)
        return self._json(response)

    def pages(self, path: str, params: Params | None = None) -> Iterator[JsonObject]:
        """Every item of a list, page by page; raises ForgeRefused for more than 5,000 of them."""
        asked: Params | None = {**(params or {}), "per_page": PER_PAGE}
        for _ in range(MOST_PAGES):
            response = self._sent("GET", path, None, asked)
            yield from map(object_of, list_of(self._json(response)))
            following = response.links.get("next", {}).get("url")
            if following is None:
                return
            path, asked = self._same_server(following), None
        raise ForgeRefused(f"{self._name} lists more than {MOST_PAGES * PER_PAGE} things at {escape_text(path)}")

    def tail(self, path: str, size: int) -> str:
        """The last `size` bytes of a text, read without the login where the forge hands on to another server.

        "" where there is none, where it does not end in time or within 256 MiB, and where it is not as safe to fetch as
        the API: what a forge may name is not what everybody on this machine's networks would show us.
        """
        try:
            return self._run(self._tail(path, size))
        except TimeoutError:
            return ""

    async def _tail(self, path: str, size: int) -> str:
        request = self._client.build_request("GET", self._api + path)
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._client.send(request, stream=True)
            try:
                if response.next_request is None:
                    return await _end_of(response, size)
                request = response.next_request
            finally:
                await response.aclose()
            if not self._as_safe(request.url):
                return ""
        return ""

    def _as_safe(self, url: httpx.URL) -> bool:
        """Whether an address that the forge names is read as safely as its API, and is no door to this machine."""
        here = httpx.URL(self._api)
        return url.scheme == here.scheme and (url.scheme == "https" or _is_loopback(url.host))

    def _sent(self, method: Method, path: str, body: JsonObject | None, params: Params | None) -> httpx.Response:
        try:
            response = self._run(self._whole(method, path, body, params))
        except TimeoutError as error:
            raise ForgeUnreachable(
                f"{self._name} did not end its answer at {escape_text(path)} within {LONGEST_READING:g} s",
                again_after=_LATER,
            ) from error
        if not response.is_success:
            raise self._refusal(response, f"{method} {escape_text(path)}")
        return response

    async def _whole(self, method: Method, path: str, body: JsonObject | None, params: Params | None) -> httpx.Response:
        """The answer with its body as it came."""
        url = path if path.startswith(("https://", "http://")) else self._api + path
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        read = bytearray()
        async with self._client.stream(method, url, params=params, content=content, headers=headers) as response:
            async for piece in response.aiter_raw():
                read += piece
                if len(read) > LARGEST_ANSWER:
                    raise ForgeRefused(
                        f"{self._name} answered with more than {LARGEST_ANSWER} bytes at {escape_text(path)}"
                    )
        if "Content-Encoding" in response.headers:
            raise ForgeRefused(f"{self._name} packed its answer although it was asked not to; look for a proxy between")
        whole = httpx.Response(response.status_code, headers=response.headers, content=bytes(read))
        whole.request = response.request
        return whole

    def _run(self, asking: Coroutine[None, None, Came]) -> Came:
        """What comes of asking. Raises ForgeUnreachable where it breaks off, TimeoutError where it takes too long."""

        async def bounded() -> Came:
            async with asyncio.timeout(LONGEST_READING):
                return await asking

        try:
            return self._loop.run(bounded())
        except _BROKEN as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ForgeUnreachable:
        return ForgeUnreachable(
            f"{self._name} did not answer ({type(error).__name__}: {escape_text(str(error))}); see the network and the"
            " forge's status page",
            again_after=_SOON,
        )

    def _json(self, response: httpx.Response) -> Json:
        if not response.content:
            return None
        try:
            value: Json = orjson.loads(response.content)
        except ValueError as error:
            kind = escape_text(response.headers.get("Content-Type", "no type"))
            raise ForgeRefused(
                f"{self._name} answered with {kind} that is no JSON; is the address of its API right?"
            ) from error
        return value

    def _same_server(self, url: str) -> str:
        here = urlsplit(self._api)
        try:
            there = urlsplit(url)
        except ValueError:
            there = None
        if there is None or (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise ForgeRefused(
                f"{self._name} sends on to {escape_text(url)}, which is another server; it was not followed"
            )
        return url

    def _refusal(self, response: httpx.Response, asked: str) -> ForgeError:
        status, said = response.status_code, words_of(response.content)
        told = f"{self._name} answered {status} to {asked}{': ' if said else ''}{said}"
        wait = _pause(response)
        limited = wait is not None or "rate limit" in said.lower()
        match status:
            case 401:
                return AuthenticationFailed(f"{told}; the login is not accepted: log in again")
            case 429:
                return ForgeBusy(told, again_after=wait or _LATER)
            case 403 if limited:
                return ForgeBusy(told, again_after=wait or _LATER)
            case 403:
                return AccessDenied(f"{told}; let this account write to the repository, or use one that may")
            case 404 | 410:
                return NotThere(f"{told}; look whether it is there and this account may see it")
            case _ if status >= httpx.codes.INTERNAL_SERVER_ERROR:
                return ForgeUnreachable(told, again_after=wait or _SOON)
            case _ if response.is_redirect:
                return ForgeRefused(f"{told}; the repository has moved: set its remote to the new address")
            case _:
                return Declined(told, status)


async def _end_of(response: httpx.Response, size: int) -> str:
    kept, read = b"", 0
    if response.status_code != httpx.codes.OK:
        return ""
    async for piece in response.aiter_raw():
        kept = (kept + piece)[-size:]
        read += len(piece)
        if read > LARGEST_LOG:
            return ""
    return kept.decode("utf-8", "replace")


class Declined(ForgeRefused):
    """A request was understood and not done; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


def words_of(content: bytes) -> str:
    """What the forge says of a refusal, in one line: its message and the details of it."""
    try:
        answer = object_of(orjson.loads(content))
    except ValueError:
        return ""
    told = [answer.get("message"), answer.get("error")]
    details = [_detail(item) for item in list_of(answer.get("errors"))]
    return escape_text("; ".join(filter(None, (*map(_word, told), *details))), _SAID)


def _detail(item: Json) -> str:
    """One of GitHub's errors: a message, or a field and a word for what is wrong with it."""
    error = object_of(item)
    told = _word(error.get("message")) or " ".join(filter(None, (_word(error.get("field")), _word(error.get("code")))))
    return told or _word(item)


def _word(value: Json, levels: int = _LEVELS) -> str:
    """A message, which GitLab may give as a list or by field; what lies deeper is left out."""
    if isinstance(value, list | dict) and not levels:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, (_word(inner, levels - 1) for inner in value)))
    if isinstance(value, dict):
        return ", ".join(f"{line_of(name)}: {_word(inner, levels - 1)}" for name, inner in value.items())
    return line_of(value, _SAID)


def _pause(response: httpx.Response) -> float | None:
    """Seconds until the account may ask again, by the server's own clock; None where it is not the account's limit."""
    asked = response.headers.get("Retry-After", "")
    if asked.isascii() and asked.isdigit():
        return min(float(asked) + 1.0, _LATEST)
    for left, reset in (("X-RateLimit-Remaining", "X-RateLimit-Reset"), ("RateLimit-Remaining", "RateLimit-Reset")):
        at = response.headers.get(reset, "")
        if response.headers.get(left) == "0" and at.isascii() and at.isdigit():
            now = _of_date(response.headers.get("Date", ""))
            return min(max(float(at) - now, 0.0) + 1.0, _LATEST) if now is not None else _LATER
    return None


def _of_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _must_be_safe(api: str) -> None:
    """A token is sent over TLS, or to this machine."""
    parts = urlsplit(api)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
        raise ForgeRefused(f"{escape_text(api)} is no https:// address; a token is not sent in the clear")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
