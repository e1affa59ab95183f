"""Idempotency keys: a write that names a key it used before gets the first answer instead of being done twice.

What a key is used for is written down, as a digest, before the request is processed, and the answer before anybody gets
it. If the daemon dies between the two, nobody knows the outcome: the key is refused, and a person can look. A refused
request leaves its key free.

Keys belong to whoever uses them: the same key of another caller, or of the same one with another scope, is another key,
so that nobody gets an answer that was not theirs, nor can occupy a key of somebody else.

What a person provides is kept in no form: from a plain digest it could be guessed. Its digest is salted with a value
that only this daemon process knows, so that after a restart the same key is refused.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from typing import Annotated, Any
from weakref import WeakValueDictionary

import orjson
from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from orchestrator.daemon.callers import Caller
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, write_atomically
from orchestrator.server.peer_auth import caller_of
from orchestrator.server.problems import KeyTaken

KEPT = 7 * 24 * 3600.0
"""Seconds that a key is remembered at least."""
CLEANED_EVERY = 3600.0
"""Seconds between two looks for keys that need not be remembered any more: each reads them all."""
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SECRET = {"x-secret": True}
"""A route's mark, in the OpenAPI document too, that its requests hold what must not be kept."""


class IdempotencyKeys:
    """The keys of one data folder; used from one event loop. `clock` tells the time in seconds since 1970."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.salt = token_bytes(32)
        """Of this daemon process alone; it is stored nowhere."""
        self._folder, self._clock = folder, clock
        self._cleaned_at: float | None = None
        self._using: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def once(self, key: str, request: bytes, take: Callable[[], Awaitable[str]]) -> str:
        """Return what `take` answered when the key, made by `key_of`, was first used.

        Raises KeyTaken, and what `take` raises.
        """
        lock = self._using.setdefault(key, asyncio.Lock())  # it lives while anybody holds or awaits it
        async with lock:
            return await self._once(key, request, take)

    async def _once(self, key: str, request: bytes, take: Callable[[], Awaitable[str]]) -> str:
        path = self._folder / hashlib.sha256(key.encode()).hexdigest()
        meant = hashlib.sha256(request).hexdigest()
        known = await asyncio.to_thread(self._known, path)
        if known is not None:
            return _answer_of(known, meant)
        await asyncio.to_thread(write_atomically, path, orjson.dumps({"request": meant}))
        try:
            answer = await take()
        except (OrchestratorError, OSError, HTTPException, RequestValidationError):
            path.unlink(missing_ok=True)
            raise
        await asyncio.to_thread(write_atomically, path, orjson.dumps({"request": meant, "answer": answer}))
        return answer

    def _known(self, path: Path) -> dict[str, str] | None:
        make_private(self._folder)
        self._clean()
        try:
            known: dict[str, str] = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        return known

    def _clean(self) -> None:
        """Forget what is too old, if that was not looked for within the hour."""
        now = self._clock()
        if self._cleaned_at is not None and 0 <= now - self._cleaned_at < CLEANED_EVERY:
            return
        self._cleaned_at = now
        for old in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if old.stat().st_mtime < now - KEPT:
                    old.unlink()


def key_of(caller: Caller, use: str, key: str) -> str:
    """Return what a caller's key is remembered by; `use` tells apart what else takes keys."""
    return orjson.dumps([use, caller.uid, caller.name, caller.attempt, caller.scope, key]).decode()


def _answer_of(known: dict[str, str], meant: str) -> str:
    if known["request"] != meant:
        raise KeyTaken("this Idempotency-Key was used for another request before; use a new key for a new request")
    if "answer" not in known:
        raise KeyTaken(
            "the daemon stopped while it processed this request, and the outcome is not known; "
            "look at `orchestrator tasks`, and send it again with a new key if it was not done"
        )
    return known["answer"]


def _key_named(
    idempotency_key: Annotated[str | None, Header(max_length=255, description="The same key does it once.")] = None,
) -> None:
    """Name the key in the OpenAPI document."""


_KEY = Depends(_key_named)


class KeyedRoute(APIRoute):
    """A route whose writes obey Idempotency-Key; reads are never repeated from memory."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        dependencies = more.pop("dependencies", None) or []
        is_write = not WRITES.isdisjoint(more.get("methods") or ())
        also = [_KEY] if is_write and _KEY not in dependencies else []
        super().__init__(path, endpoint, dependencies=[*dependencies, *also], **more)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, which is not called for a key that was answered."""
        handle, is_secret = super().get_route_handler(), (self.openapi_extra or {}).items() >= SECRET.items()

        async def keyed(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if not key or request.method not in WRITES:
                return await handle(request)

            async def take() -> str:
                return _kept(await handle(request))

            keys: IdempotencyKeys = request.app.state.keys
            identity = await _identity_of(request)
            meant = hmac.digest(keys.salt, identity, "sha256") if is_secret else identity
            return _first_response(await keys.once(key_of(caller_of(request), "api", key), meant, take))

        return keyed


async def _identity_of(request: Request) -> bytes:
    """Return what distinguishes a request from others of the same caller."""
    url = request.url
    return orjson.dumps([request.method, url.path, url.query]) + await request.body()


def _kept(response: Response) -> str:
    body = bytes(response.body).decode()
    return orjson.dumps({"status": response.status_code, "headers": dict(response.headers), "body": body}).decode()


def _first_response(kept: str) -> Response:
    first = orjson.loads(kept)
    return Response(first["body"], status_code=first["status"], headers=first["headers"])
