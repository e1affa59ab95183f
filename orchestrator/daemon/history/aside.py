"""Threads for what pages and reports take long for: so few, and apart, that nothing else of the daemon waits for them.

The daemon stops when what runs in them has ended; what waits is given up with the request that waits for it.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import BoundedSemaphore
from typing import ParamSpec, TypeVar

from orchestrator.errors import OrchestratorError

P = ParamSpec("P")
T = TypeVar("T")

MOST_AT_ONCE, MOST_WAITING = 2, 32
"""How many are made at the same time, and how many may wait for that."""

_threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="pages")
_places = BoundedSemaphore(MOST_AT_ONCE + MOST_WAITING)


class TooManyPages(OrchestratorError):
    """So many pages, diffs or reports are being made that another one would wait for long."""


async def aside(function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
    """Return what a function returns that may take long; raises what it raises, and TooManyPages."""
    if not _places.acquire(blocking=False):
        raise TooManyPages(f"{MOST_AT_ONCE + MOST_WAITING} are being made or wait for it; try again in a moment")
    running = _threads.submit(contextvars.copy_context().run, partial(function, *args, **more))
    running.add_done_callback(lambda _: _places.release())
    return await asyncio.wrap_future(running)
