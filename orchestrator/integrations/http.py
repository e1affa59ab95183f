"""The HTTP client for trackers and forges: JSON over bounded answers, with errors that say what to do.

* An answer has at most `LARGEST_ANSWER` bytes and `Patience.request` seconds, from the first byte of its head to the
  last of its body. It is requested uncompressed: one that unpacks to a thousand times its size could not be stopped.
* The login is sent to its own server only, over TLS or within this machine. Redirects are followed within that server.
* GET requests are repeated while a server is down or busy, unless it asks for a longer pause than we would wait.
  Other requests are sent once: the caller can check whether the effect is there.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal, Self, TypeVar
from urllib.parse import urlsplit

import httpx
import orjson
import stamina
from pydantic import TypeAdapter, ValidationError

from orchestrator import __version__
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import (
    AccessDenied,
    AuthenticationFailed,
    Busy,
    Declined,
    NotFound,
    Refused,
    RemoteError,
    UnfitAnswer,
    Unreachable,
)
from orchestrator.integrations.refusals import first_problem, message_in, wanted_pause
from orchestrator.integrations.tls import tls_context
from orchestrator.redaction.display import escape_text

T = TypeVar("T")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Params = Mapping[str, str | int | bool]

LARGEST_ANSWER = 16 * 1024 * 1024
LARGEST_LOG = 256 * 1024 * 1024
MOST_REDIRECTS_OF_A_LOG = 3
CONNECT_TIMEOUT, SILENCE = 10.0, 30.0
"""Seconds to connect, and between two bytes."""

_BROKEN = (httpx.HTTPError, httpx.InvalidURL, UnicodeError)
"""What httpx raises for a broken connection, and for a redirect to an invalid address (the last two)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait, in seconds: for one answer, for a login, and for all requests about one ticket.

    GET requests are tried up to `tries` times, after a `pause` that doubles each time or after the one that the server
    names. A server that names more than `longest_pause` is not asked again. Up to `redirects` redirects are followed.
    """

    request: float = 20.0
    login: float = 10.0
    ticket: float = 90.0
    tries: int = 4
    pause: float = 0.5
    longest_pause: float = 60.0
    redirects: int = 3


class HttpClient:
    """Speaks to the API at `api` as one account.

    `subject` is what the requests are about, for messages; without it they name the request. Every method raises
    RemoteError.
    """

    def __init__(
        self,
        api: str,
        login: Credentials,
        patience: Patience,
        *,
        subject: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._api = api.rstrip("/")
        self._name, self._mend, self._subject, self._patience = login.host, login.mend, subject, patience
        if login.token and not _is_private(httpx.URL(self._api)):
            raise Refused(f"{escape_text(api)} is no https:// address; a token is not sent in the clear")
        self._retrying = stamina.AsyncRetryingCaller(
            attempts=patience.tries,
            timeout=None,
            wait_initial=patience.pause,
            wait_max=patience.longest_pause,
            wait_jitter=patience.pause,
        )
        self._client = httpx.AsyncClient(
            headers={
                "Accept": "application/json",
                "User-Agent": f"orchestrator/{__version__}",
                **(headers or {}),
                **login.headers,
                "Accept-Encoding": "identity",
            },
            timeout=httpx.Timeout(min(SILENCE, patience.request), connect=min(CONNECT_TIMEOUT, patience.request)),
            follow_redirects=False,
            verify=tls_context(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, kind: TypeAdapter[T], path: str, params: Params | None = None) -> T:
        """Return the answer to a GET as `kind`."""
        return self._as(kind, await self.send("GET", path, params=params), path)

    def _as(self, kind: TypeAdapter[T], response: httpx.Response, path: str) -> T:
        try:
            return kind.validate_json(response.content)
        except ValidationError as error:
            raise UnfitAnswer(
                f"{self._name} did not answer with {self._subject or path} ({first_problem(error)}); check "
                "that the address in the settings is that of its API, and not of a login page"
            ) from error

    async def get_changed(
        self, kind: TypeAdapter[T], path: str, params: Params | None = None, *, etag: str = ""
    ) -> tuple[T, str] | None:
        """Return the answer to a GET as `kind` and its ETag, "" if it has none; None if it still has the given one."""
        response = await self.send("GET", path, params=params, etag=etag)
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return None
        return self._as(kind, response, path), response.headers.get("ETag", "")

    async def request(
        self, method: Method, path: str, body: JsonObject | None = None, params: Params | None = None
    ) -> Json:
        """Return the answer to a request as JSON, None if it is empty."""
        return self.parse(await self.send(method, path, body, params))

    def parse(self, response: httpx.Response) -> Json:
        """Return an answer as JSON, None if it is empty."""
        if not response.content:
            return None
        try:
            value: Json = orjson.loads(response.content)
        except ValueError as error:
            kind = escape_text(response.headers.get("Content-Type", "no type"))
            raise UnfitAnswer(
                f"{self._name} answered {kind} that is no JSON; check the address of its API in the settings"
            ) from error
        return value

    async def send(
        self,
        method: Method,
        path: str,
        body: JsonObject | None = None,
        params: Params | None = None,
        *,
        etag: str = "",
    ) -> httpx.Response:
        """Send a request and return the whole answer; `path` is below the API, or an address on the same server.

        With an `etag` the answer may be 304, without content.
        """
        if path.startswith(("https://", "http://")):
            self._refuse_other_server(path)
            url = path
        else:
            url = self._api + path
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        if etag:
            headers["If-None-Match"] = etag
        request = self._client.build_request(method, url, params=params, content=content, headers=headers)
        if method == "GET":
            return await self._retrying(self._pause_after, self._exchange, request)
        return await self._exchange(request)

    async def tail(self, path: str, size: int) -> str:
        """Return the last `size` bytes of a log, read without the login if the server redirects to another server.

        "" if there is none, if it does not end in time or within 256 MiB, and if the other server is not as safe as the
        API: a redirect must not make us fetch what only this machine or its network can see.
        """
        request = self._client.build_request("GET", self._api + path)
        try:
            async with asyncio.timeout(self._patience.request):
                for _ in range(MOST_REDIRECTS_OF_A_LOG + 1):
                    response = await self._client.send(request, stream=True)
                    try:
                        if response.next_request is None:
                            return await _end_of(response, size)
                        request = response.next_request
                    finally:
                        await response.aclose()
                    if request.url.scheme != httpx.URL(self._api).scheme or not _is_private(request.url):
                        return ""
        except TimeoutError:
            return ""
        except _BROKEN as error:
            raise self._unreachable(error) from error
        return ""

    def _pause_after(self, error: Exception) -> bool | float:
        """Whether a failed GET is repeated: after the seconds that the server names, or after stamina's own pause."""
        if not isinstance(error, Unreachable):
            return False
        if error.wait is None:
            return True
        return error.wait if error.wait <= self._patience.longest_pause else False

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        """Return the answer to a request, for a GET that at the end of redirects on the same server."""
        asked = self._subject or f"{request.method} {escape_text(request.url.path)}"
        try:
            async with asyncio.timeout(self._patience.request):
                for _ in range(self._patience.redirects + 1):
                    response = await self._read(request, asked)
                    if request.method != "GET" or response.next_request is None or not self._patience.redirects:
                        break
                    request = response.next_request
                    self._refuse_other_server(str(request.url))
                else:
                    raise UnfitAnswer(f"{self._name} redirects in circles for {asked}; check its address")
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Unreachable(f"{self._name} did not answer {asked} in time ({self._patience.request:g} s)") from error
        except _BROKEN as error:
            raise self._unreachable(error) from error
        is_unchanged = response.status_code == httpx.codes.NOT_MODIFIED and "If-None-Match" in request.headers
        if not response.is_success and not is_unchanged:
            raise self._refusal(response, asked)
        return response

    async def _read(self, request: httpx.Request, asked: str) -> httpx.Response:
        """Return a response with its whole body, whatever its status."""
        body = bytearray()
        response = await self._client.send(request, stream=True)
        try:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise UnfitAnswer(f"{self._name} compressed its answer although it was asked not to; check its proxy")
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise UnfitAnswer(f"{self._name} answered more than {LARGEST_ANSWER // 2**20} MiB for {asked}")
        finally:
            await response.aclose()
        whole = httpx.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)
        whole.next_request = response.next_request
        return whole

    def _refuse_other_server(self, url: str) -> None:
        here = urlsplit(self._api)
        try:
            there = urlsplit(url)
        except ValueError:
            there = None
        if there is None or (there.scheme, there.netloc) != (here.scheme, here.netloc):
            raise UnfitAnswer(
                f"{self._name} points to another server ({escape_text(url)}), where the login must not go; if it has "
                "moved, put its new address into the settings"
            )

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(
            f"{self._name} cannot be reached ({type(error).__name__}: {escape_text(str(error), 500)}); "
            "check the network and the server"
        )

    def _refusal(self, response: httpx.Response, asked: str) -> RemoteError:
        """Return the error that a status other than 2xx stands for."""
        status, message, wait = response.status_code, message_in(response.content), wanted_pause(response)
        said = f"{self._name} answered {status} to {asked}{': ' if message else ''}{message}"
        mend = f". {self._mend}" if self._mend else ""
        if status == 429 or wait is not None or (status == 403 and "rate limit" in message.lower()):
            later = "" if wait is None else f"; try again after {wait:.0f} s"
            return Busy(f"{said}{later}{mend}", wait)
        if status == 401 or "FAILED" in response.headers.get("X-Seraph-LoginReason", ""):
            # Jira answers as for an anonymous user, and says so in this header only.
            return AuthenticationFailed(f"{said}; the login is not accepted{mend}")
        match status:
            case 403:
                return AccessDenied(f"{said}; this account may not do that: grant it, or use another account{mend}")
            case 404 | 410:
                return NotFound(f"{said}; check that it exists and that this account may see it{mend}")
            case _ if status >= httpx.codes.INTERNAL_SERVER_ERROR:
                return Unreachable(said)
            case _ if response.is_redirect:
                return Declined(f"{said}; it has moved: put its new address into the settings", status)
            case _:
                return Declined(said, status)


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


def _is_private(url: httpx.URL) -> bool:
    """Return whether nobody else on the network can read the connection: TLS, or a connection within this machine."""
    if url.scheme == "https":
        return True
    try:
        return url.scheme == "http" and ip_address(url.host).is_loopback
    except ValueError:
        return url.host == "localhost"
