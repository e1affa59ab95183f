"""Where a fetch runs, which may take longer than the watchdog lets worker threads be busy."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.daemon.sources.copy import Copy
from orchestrator.daemon.sources.service import SourceService
from orchestrator.daemon.sources.state import SourceState
from tests.fakes.waiting import until


async def test_a_slow_fetch_takes_none_of_the_worker_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def fetch_slowly(_: Copy) -> None:
        begun.set()
        released.wait(60)

    monkeypatch.setattr(Copy, "bring_up_to_date", fetch_slowly)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    service = SourceService(data_dir=tmp_path, login_of=lambda _: None, clock=lambda: datetime.now(UTC))
    first = asyncio.create_task(service.fetch("https://example.org/a/b.git"))
    try:
        await until(begun.is_set)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(lambda: 1) == 1
    finally:
        released.set()
    assert (await first).state is SourceState.READY
