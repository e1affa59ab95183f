"""Many pages at once: the rest of the daemon does not wait for them, and what is too much is refused."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from orchestrator.daemon.history.aside import MOST_AT_ONCE, MOST_WAITING, TooManyPages, aside
from tests.fakes.in_process_daemon import InProcessDaemon
from tests.integration.test_text_pages import submitted


@asynccontextmanager
async def long_pages(count: int) -> AsyncIterator[list[asyncio.Task[bool]]]:
    """So many pages are being made, until the context ends."""
    done = threading.Event()
    begun: list[Future[None]] = [Future() for _ in range(min(count, MOST_AT_ONCE))]
    free = iter(begun)

    def make() -> bool:
        next(free, Future[None]()).set_result(None)
        return done.wait(60)

    pages = [asyncio.create_task(aside(make)) for _ in range(count)]
    try:
        await asyncio.gather(*map(asyncio.wrap_future, begun))
        yield pages
    finally:
        done.set()
        with suppress(asyncio.CancelledError):
            assert all(await asyncio.gather(*pages))


async def test_what_pages_wait_for_holds_up_no_other_thread_of_the_daemon() -> None:
    async with long_pages(MOST_AT_ONCE + MOST_WAITING) as pages:
        assert await asyncio.wait_for(asyncio.to_thread(threading.active_count), 20) > 0
        assert not any(page.done() for page in pages)
    assert sum(thread.name.startswith("pages") for thread in threading.enumerate()) <= MOST_AT_ONCE


async def test_one_page_too_many_is_refused_and_what_is_given_up_makes_room() -> None:
    async with long_pages(MOST_AT_ONCE + MOST_WAITING) as pages:
        with pytest.raises(TooManyPages, match="try again in a moment"):
            await aside(int)
        pages[-1].cancel()
        await asyncio.wait(pages[-1:])
        another = asyncio.create_task(aside(int, "7"))
        pages[-2].cancel()
    assert await another == 7


async def test_whoever_asks_for_one_page_too_many_is_told_so(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = await submitted(client, daemon)
    async with long_pages(MOST_AT_ONCE + MOST_WAITING):
        for path in (f"/api/tasks/{task_id}/timeline", "/api/report", f"/api/tasks/{task_id}/artifacts/pipeline.toml"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "busy"), path
        page = await client.get(f"/tasks/{task_id}/timeline")
        assert (page.status_code, "Too many pages are being made" in page.text) == (503, True)
        assert (await client.get(f"/tasks/{task_id}")).status_code == 200
        body = {"text": "Another", "repo": str(daemon.settings.data_dir.parent / "repo")}
        assert (await client.post("/api/tasks", json=body)).status_code == 201
    assert (await client.get(f"/tasks/{task_id}/timeline")).status_code == 200


def test_pages_that_wait_do_not_keep_a_program_from_stopping() -> None:
    made: list[int] = []
    held, done = threading.Semaphore(0), threading.Event()

    def hold() -> bool:
        held.release()
        return done.wait(60)

    async def stopped() -> None:
        first = [asyncio.create_task(aside(hold)) for _ in range(MOST_AT_ONCE)]
        for _ in first:
            await asyncio.to_thread(held.acquire)
        others = [asyncio.create_task(aside(made.append, number)) for number in range(5)]
        await asyncio.sleep(0)
        for page in (*first, *others):
            page.cancel()
        await asyncio.wait((*first, *others))

    asyncio.run(stopped())
    done.set()
    assert asyncio.run(aside(int, "1")) == 1
    assert made == []
