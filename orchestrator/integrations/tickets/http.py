"""Asking a tracker over HTTP: bounded in size and time, patient with a busy one, and never led to another host.

A token goes to the host that it was given for and to nobody else, so redirects are followed within that host alone.
Bodies are asked for as they are: an answer that unpacks to a thousand times its size cannot be stopped in time.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from orchestrator import __version__
from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text

T = TypeVar("T")

Params = Mapping[str, str | int]

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes; a page of twenty comments as long as GitHub takes them still fits."""
MOST_REDIRECTS = 3

_BUSY = frozenset({429, 500, 502, 503, 504})
_LIMITED = frozenset({403, 429})
_BROKEN = (httpx.TransportError, httpx.InvalidURL, UnicodeError)
"""What httpx raises for a connection that breaks off, and for a redirect to what is no address (the last two)."""


class TrackerError(OrchestratorError):
    """A ticket could not be had from its tracker."""


class NoSuchTicket(TrackerError):
    """The tracker knows no such ticket, or shows it to others only."""


class AuthenticationFailed(TrackerError):
    """The tracker does not accept the login, or does not let it see the ticket."""


class TrackerUnreachable(TrackerError):
    """The tracker did not answer in time, or is too busy; the same may work later."""


class UnfitAnswer(TrackerError):
    """The tracker answered what cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a login, one request, one ticket as a whole, and between two tries; all in seconds."""

    login: float = 10.0
    request: float = 20.0
    ticket: float = 90.0
    pause: float = 0.5
    longest_pause: float = 60.0
    tries: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Whom a tracker takes us for; `mend` says to a person how to give or renew what it wants."""

    headers: Mapping[str, str]
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Later:
    """No answer yet; worth another try after `pause` seconds."""

    pause: float
    why: str


class HttpClient:
    """One tracker's API under `base`, asked about one ticket that is called `ticket` in messages.

    Every method raises TrackerError.
    """

    def __init__(
        self, client: httpx.AsyncClient, base: str, login: Credentials, patience: Patience, *, ticket: str
    ) -> None:
        self._client, self._base, self._login, self._patience = client, base, login, patience
        self._ticket = ticket
        self._host = httpx.URL(base).netloc.decode()

    async def ask(self, kind: TypeAdapter[T], path: str, params: Params | None = None) -> T:
        """What the API answers to a GET, as `kind`."""
        body = await self._answer(httpx.URL(self._base + path, params=dict(params or {})))
        try:
            return kind.validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = escape_text(".".join(map(str, first["loc"]))) or "the whole of it"
            raise UnfitAnswer(
                f"{self._host} answered what is not {self._ticket} ({where}: {first['msg']}); "
                "is the address in [trackers] that of its API's host, and not of a login page?"
            ) from error

    async def _answer(self, url: httpx.URL) -> bytes:
        """The body of the first answer that is one; a busy or silent tracker is asked again."""
        tried = 0
        while True:
            tried += 1
            answer = await self._once(url, self._patience.pause * 2.0 ** (tried - 1))
            if isinstance(answer, bytes):
                return answer
            if answer.pause > self._patience.longest_pause:
                wait = f"{answer.why} and asks to wait {answer.pause:.0f} s"
                raise TrackerUnreachable(f"{wait}; submit again then. {self._login.mend}")
            if tried >= self._patience.tries:
                raise TrackerUnreachable(f"{answer.why}; tried {tried} times. Look if it is up, then submit again")
            await asyncio.sleep(answer.pause)

    async def _once(self, url: httpx.URL, pause: float) -> "bytes | _Later":
        """The body of the answer, or when to ask again: after `pause` seconds where the tracker does not say."""
        pause = min(pause, self._patience.longest_pause)
        try:
            async with asyncio.timeout(self._patience.request):
                response, body = await self._follow(url)
        except TimeoutError:
            return _Later(pause=pause, why=f"{self._host} does not answer in time")
        except _BROKEN as error:
            return _Later(pause=pause, why=f"{self._host} cannot be reached ({type(error).__name__})")
        wanted = _wanted_pause(response)
        if response.status_code in _BUSY or wanted is not None:
            why = f"{self._host} is too busy (status {response.status_code})"
            return _Later(pause=pause if wanted is None else wanted, why=why)
        self._judge(response)
        return body

    async def _follow(self, url: httpx.URL) -> tuple[httpx.Response, bytes]:
        """The answer at the end of redirects, all on the same host."""
        for _ in range(MOST_REDIRECTS + 1):
            response, body = await self._get(url)
            if response.next_request is None:
                return response, body
            aim = response.next_request.url
            if (aim.scheme, aim.netloc) != (url.scheme, url.netloc):
                raise UnfitAnswer(
                    f"{self._host} redirects to another host ({escape_text(response.headers['Location'])}), where the "
                    f"login must not go; give the address that the tracker has now. {self._login.mend}"
                )
            url = aim
        raise UnfitAnswer(f"{self._host} leads us round in circles for {self._ticket}; look at its address")

    async def _get(self, url: httpx.URL) -> tuple[httpx.Response, bytes]:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"orchestrator/{__version__}",
            **self._login.headers,
        }
        body = bytearray()
        async with self._client.stream("GET", url, headers=headers) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > LARGEST_ANSWER:
                    raise UnfitAnswer(
                        f"{self._host} answered more than {LARGEST_ANSWER // 1024} KiB for {self._ticket}; "
                        "hand in what matters of it as a text"
                    )
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise UnfitAnswer(f"{self._host} packed its answer although it was asked not to; look for a proxy between")
        return response, bytes(body)

    def _judge(self, response: httpx.Response) -> None:
        """Raise what any status but 200 means."""
        status = response.status_code
        jira_said = response.headers.get("X-Seraph-LoginReason", "")
        if status == 401 or "FAILED" in jira_said:  # Jira then goes on as if nobody had tried to log in
            raise AuthenticationFailed(f"{self._host} does not accept the login (status {status}). {self._login.mend}")
        if status == 403:
            raise AuthenticationFailed(
                f"{self._host} does not let this login see {self._ticket} (status 403). {self._login.mend}"
            )
        if status in {404, 410}:
            raise NoSuchTicket(
                f"{self._ticket} is not there, or this login may not see it; look at the number. {self._login.mend}"
            )
        if status != 200:
            raise UnfitAnswer(
                f"{self._host} answered status {status} for {self._ticket}; open it in a browser to see why"
            )


def _wanted_pause(response: httpx.Response) -> float | None:
    """The seconds after which a busy tracker wants to be asked again, None where it says nothing of it.

    GitHub tells its limits with status 403 too, and when one ends in a header of its own
    (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
    """
    after, now = response.headers.get("Retry-After", ""), datetime.now(UTC)
    if response.status_code not in _BUSY | _LIMITED:
        return None
    if after.isascii() and after.isdecimal():
        return float(after[:9])
    if after:
        try:
            until = parsedate_to_datetime(after)
        except (ValueError, OverflowError):
            return None
        return max((until.replace(tzinfo=until.tzinfo or UTC) - now).total_seconds(), 0.0)
    reset = response.headers.get("X-RateLimit-Reset", "")
    if response.headers.get("X-RateLimit-Remaining") == "0" and reset.isascii() and reset.isdecimal():
        return max(float(reset[:12]) - now.timestamp(), 0.0)
    return None
