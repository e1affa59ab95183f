"""Alarms of a real scheduler: where they ring, and how often."""

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest_asyncio

from orchestrator.daemon.timers import Timers

PATIENCE = 60.0


@pytest_asyncio.fixture
async def timers() -> AsyncIterator[Timers]:
    """Alarms that have not been started."""
    made = Timers()
    yield made
    made.close()


async def test_every_alarm_rings_in_the_event_loop_without_a_thread_of_its_own(timers: Timers) -> None:
    rang: asyncio.Queue[tuple[str, threading.Thread]] = asyncio.Queue()
    timers.start()
    timers.ring_at("once", datetime.now(UTC), lambda: rang.put_nowait(("once", threading.current_thread())))
    timers.ring_every("often", 0.05, lambda: rang.put_nowait(("often", threading.current_thread())))
    async with asyncio.timeout(PATIENCE):
        heard = [await rang.get() for _ in range(4)]
    assert {thread for _, thread in heard} == {threading.current_thread()}
    assert [name for name, _ in heard].count("once") == 1


async def test_an_overdue_alarm_rings_and_a_new_one_of_the_same_name_replaces_it(timers: Timers) -> None:
    rang: asyncio.Queue[str] = asyncio.Queue()
    now = datetime.now(UTC)
    timers.start()
    timers.ring_at("wake", now + timedelta(hours=1), lambda: rang.put_nowait("the first"))
    timers.ring_at("wake", now - timedelta(days=1), lambda: rang.put_nowait("the second"))
    async with asyncio.timeout(PATIENCE):
        assert await rang.get() == "the second"
