"""How often callers over TCP may ask. The owner of the Unix socket may ask as often as the machine answers.

Failures to log in count together: nobody can be told apart on a loopback address. Beyond their limit they are answered
with 429, while whoever shows something valid goes on: so nobody can lock others out.
"""

import math
import time
from dataclasses import dataclass

from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.daemon.callers import Caller
from orchestrator.server.access.requests import UNSAFE, bearer_of, header, is_hook, is_open, peer_of, session_of
from orchestrator.server.problems import HttpProblem, answer

READS, WRITES = RateLimitItemPerMinute(3000), RateLimitItemPerMinute(600)
FAILURES = RateLimitItemPerMinute(10)
MINUTE = 60


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of a limit, and the seconds until it is whole or, if nothing is left, until a request fits."""

    name: str
    limit: int
    left: int
    seconds: int

    def headers(self) -> dict[str, str]:
        """Return what tells a program how often it may ask."""
        return {
            "RateLimit-Policy": f'"{self.name}";q={self.limit};w={MINUTE}',
            "RateLimit": f'"{self.name}";r={self.left};t={self.seconds}',
        }


class Rates:
    """The requests of the last minute, by caller."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def take(self, item: RateLimitItem, name: str, *key: str) -> tuple[bool, Allowance]:
        """Count a request; return whether it is within its limit, and what is left."""
        fits = self._limiter.hit(item, name, *key)
        stats = self._limiter.get_window_stats(item, name, *key)
        seconds = max(1, math.ceil(stats.reset_time - time.time()))
        return fits, Allowance(name, item.amount, stats.remaining if fits else 0, seconds)


class RateLimited:
    """Refuses with 429 who asks too often over TCP, and tells the others how often they may."""

    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app, self._rates = app, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if peer_of(scope) is not None or is_open(scope) or is_hook(scope):
            await self._app(scope, receive, send)
            return
        caller: Caller = scope["state"]["caller"]
        item, name = (WRITES, "writes") if scope["method"] in UNSAFE else (READS, "reads")
        fits, allowance = self._rates.take(item, name, str(caller))
        if not fits:
            refusal = _too_many(f"{caller} sent more than {item.amount} {name} in a minute", allowance)
            await refusal(scope, receive, send)
            return

        async def telling(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(allowance.headers())
            await send(message)

        await self._app(scope, receive, telling)


class FewFailures:
    """Answers failures to log in with 429 once there were too many in a minute."""

    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app, self._rates = app, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at its answer."""
        was_refused = False

        async def looking(message: Message) -> None:
            nonlocal was_refused
            if message["type"] == "http.response.start" and _is_failure(scope, message["status"]):
                fits, allowance = self._rates.take(FAILURES, "failures")
                if not fits:
                    was_refused = True
                    await _too_many("too many requests showed nothing valid", allowance)(scope, receive, send)
            if not was_refused:
                await send(message)

        await self._app(scope, receive, looking if peer_of(scope) is None else send)


def _is_failure(scope: Scope, status: int) -> bool:
    """Return whether a request failed to log in; a page that is asked for without any credentials is no attempt."""
    if status == 401:
        return _shows_credentials(scope) or is_hook(scope) or "text/html" not in header(scope, b"accept")
    return status == 403 and scope["path"] == "/login"


def _shows_credentials(scope: Scope) -> bool:
    return bearer_of(scope) is not None or session_of(scope) is not None


def _too_many(why: str, allowance: Allowance) -> Response:
    detail = f"{why}; go on in {allowance.seconds} s"
    refusal = answer(HttpProblem(429, "too-many-requests", "Too many requests", detail))
    refusal.headers.update({**allowance.headers(), "Retry-After": str(allowance.seconds)})
    return refusal
