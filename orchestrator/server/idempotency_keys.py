"""Idempotency keys: the same key gives the same answer, also when the first one was lost.

What a key is used for is written down, as a digest, before the request is taken in, and the answer before anybody gets
it. If the daemon dies between the two, nobody knows how that ended: the key is refused, and a person can look. So
nothing is done twice under a key. A refusal leaves the key free.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from weakref import WeakValueDictionary

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, write_atomically
from orchestrator.server.problems import KeyTaken

KEPT = 7 * 24 * 3600.0
"""Seconds."""


class Keys:
    """The keys of one data folder; used from one event loop."""

    def __init__(self, folder: Path) -> None:
        self.salt = token_bytes(32)
        """Of this life of the daemon, and kept nowhere."""
        self._folder = folder
        self._using: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def once(self, key: str, request: bytes, take: Callable[[], Awaitable[str]]) -> str:
        """The answer that `take` gave when the key was first used. Raises KeyTaken, and what `take` raises."""
        lock = self._using.setdefault(key, asyncio.Lock())  # there for as long as anybody holds it or waits for it
        async with lock:
            return await self._once(key, request, take)

    async def _once(self, key: str, request: bytes, take: Callable[[], Awaitable[str]]) -> str:
        path = self._folder / hashlib.sha256(key.encode()).hexdigest()
        meant = hashlib.sha256(request).hexdigest()
        known = await asyncio.to_thread(self._known, path)
        if known is not None:
            return _told(known, meant)
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
        for old in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if old.stat().st_mtime < time.time() - KEPT:
                    old.unlink()
        try:
            known: dict[str, str] = orjson.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        return known


def _told(known: dict[str, str], meant: str) -> str:
    if known["request"] != meant:
        raise KeyTaken("this Idempotency-Key came with another request before; use a new key for a new request")
    if "answer" not in known:
        raise KeyTaken(
            "the daemon stopped while it took this request in, and how that ended is not known; "
            "look at `orchestrator tasks`, and ask with a new key if it was not done"
        )
    return known["answer"]
