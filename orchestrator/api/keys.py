"""Idempotency keys: the same key gives the same task, also when the answer to the first request was lost.

What a key was used for is written down before the ticket is taken in, and the task's id before anybody is answered. If
the daemon dies between the two, nobody knows how that ended: the key is refused, and a person can look. So a key never
makes two tasks.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

import orjson

from orchestrator.api.problems import KeyTaken
from orchestrator.core.errors import OrchestratorError
from orchestrator.files import make_private, write_atomically

KEPT = 7 * 24 * 3600.0
"""Seconds."""


class Keys:
    """The keys of one data folder; used from one event loop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._using: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def once(self, key: str, request: bytes, take: Callable[[], Awaitable[str]]) -> str:
        """The id that `take` gave when the key was first used. Raises KeyTaken, and what `take` raises."""
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
            task_id = await take()
        except (OrchestratorError, OSError):
            path.unlink(missing_ok=True)
            raise
        await asyncio.to_thread(write_atomically, path, orjson.dumps({"request": meant, "task": task_id}))
        return task_id

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
    if "task" not in known:
        raise KeyTaken(
            "the daemon stopped while it took this request in, and how that ended is not known; "
            "look at `orchestrator tasks`, and submit with a new key if the task is not there"
        )
    return known["task"]
