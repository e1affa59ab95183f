"""Waiting for what another thread, another process or a loop beside the test does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

PATIENCE = 60.0
"""Seconds until a test fails that waits in vain."""


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition of which nothing notifies."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain: {what or condition}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(loop: Coroutine[object, object, object]) -> AsyncIterator[None]:
    """Run a loop beside the block, and end it after; one that ends before fails the test."""
    task = asyncio.create_task(loop)
    try:
        yield
        assert not task.done(), "the loop ended by itself"
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
