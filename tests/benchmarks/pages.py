"""The pages: how long the daemon takes for them with many tasks, what a first visit weighs, and how soon readers hear.

One daemon has 1,000 tasks, half of them ended, and one of these has a journal of 10,000 lines. Times are from the
request to the last byte over the daemon's socket, the median of several; a browser's own work is not in them. Readers
are 100 event streams of one client; their time begins when the request that leads to the decision is sent.
"""

import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.harness import DaemonHarness

Row = tuple[str, str, str]

TASKS, LINES, CLIENTS = 1000, 10_000, 8
READERS, DECISIONS = 100, 40
TIMES = 15
PAUSE = 0.1  # seconds between two decisions
BOARDS = ("/board", "/board/columns", "/board?by=stage", "/tasks", "/tasks?text=number+7")


def rows() -> Iterator[Row]:
    """Return name, measured value and goal of each measurement, all taken with one daemon."""
    with tempfile.TemporaryDirectory() as base, DaemonHarness(Path(base), max_agents=1) as harness:
        path = harness.data / "orchestrator.sock"
        with _client(path) as client:
            ids = _fill(path, str(harness.repo))
            for address in BOARDS:
                yield f"pages: {address} with {TASKS} tasks", _median(client, address), "≤ 150 ms"
            yield "pages: first byte of /", _median(client, "/", first=True), "≤ 30 ms"
            _lengthen(path, ids[0])
            for part in ("", "/journal", "/timeline"):
                name = f"pages: a task{part} with a journal of {LINES} lines"
                yield name, _median(client, f"/tasks/{ids[0]}{part}"), "≤ 150 ms"
            for page in ("/", "/board", f"/tasks/{ids[0]}"):
                name = "/tasks/…" if page.startswith("/tasks/") else page
                yield f"pages: a first visit to {name}", f"{_weight(client, page) / 1024:.0f} KiB", "≤ 150 KiB"
        yield from _fan_out(path, ids[1])


def _client(path: Path) -> httpx.Client:
    return httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://daemon", timeout=60)


def _in_parallel(path: Path, requests: list[tuple[str, str, dict[str, Any]]]) -> list[Any]:
    """Send requests by several clients and return the answers in the same order."""
    clients = [_client(path) for _ in range(CLIENTS)]

    def send(numbered: tuple[int, tuple[str, str, dict[str, Any]]]) -> Any:
        number, (method, address, body) = numbered
        answer = clients[number % CLIENTS].request(method, address, json=body)
        answer.raise_for_status()
        return answer.json()

    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(send, enumerate(requests)))
    finally:
        for client in clients:
            client.close()


def _fill(path: Path, repo: str) -> list[str]:
    """Submit all tasks as drafts of several pipelines, and cancel every other one; return the ids of the others."""
    pipelines = cycle(("full", "review_only", "custom"))
    bodies = [
        {"text": f"Add the flag number {number} to the program\n", "repo": repo, "pipeline": pipeline, "draft": True}
        for number, pipeline in zip(range(TASKS), pipelines, strict=False)
    ]
    ids = [str(made["id"]) for made in _in_parallel(path, [("POST", "/api/tasks", body) for body in bodies])]
    _in_parallel(path, [("POST", f"/api/tasks/{one}/cancel", {}) for one in ids[1::2]])
    return ids[::2]


def _lengthen(path: Path, task: str) -> None:
    """Take decisions about a task until its journal has the lines."""
    levels = cycle(("low", "high"))
    _in_parallel(path, [("PATCH", f"/api/tasks/{task}", {"priority": next(levels)}) for _ in range(LINES)])


def _median(client: httpx.Client, address: str, *, first: bool = False) -> str:
    """Return the median time of a page in milliseconds, to its first byte or to its last."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        with client.stream("GET", address) as answer:
            answer.raise_for_status()
            if not first:
                answer.read()
            times.append(time.perf_counter() - began)
            answer.read()
    worst = max(times) * 1000
    return f"{statistics.median(times) * 1000:.1f} ms (worst {worst:.1f})"


def _weight(client: httpx.Client, page: str) -> int:
    """Return the bytes of a page and of all files that it names, as they are transferred."""
    size, text = _transferred(client, page)
    files = set(re.findall(r'(?:src|href)="(/static/[^"]*)"', text))
    return size + sum(_transferred(client, file)[0] for file in files)


def _transferred(client: httpx.Client, address: str) -> tuple[int, str]:
    with client.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as answer:
        answer.raise_for_status()
        answer.read()
        head = sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
        return head + answer.num_bytes_downloaded, answer.text


def _fan_out(path: Path, task: str) -> Iterator[Row]:
    heard = asyncio.run(_heard(path, task))
    middle, late = statistics.median(heard), statistics.quantiles(heard, n=100)[98]
    yield f"pages: decision → event at {READERS} readers, median", f"{middle * 1000:.0f} ms", "≤ 150 ms"
    yield f"pages: decision → event at {READERS} readers, 99 of 100", f"{late * 1000:.0f} ms", "≤ 500 ms"


async def _heard(path: Path, task: str) -> list[float]:
    """Return how long after its request each reader heard of each decision, in seconds."""
    limits = httpx.Limits(max_connections=READERS + 1)
    transport = httpx.AsyncHTTPTransport(uds=str(path), limits=limits)
    times: list[list[float]] = [[] for _ in range(READERS)]
    ready = asyncio.Semaphore(0)

    async def read(client: httpx.AsyncClient, into: list[float]) -> None:
        async with client.stream("GET", "/live") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("id:") and not into:
                    ready.release()
                elif line.startswith("data:"):
                    into.append(time.perf_counter())

    sent = []
    async with httpx.AsyncClient(transport=transport, base_url="http://daemon", timeout=60) as client:
        readers = [asyncio.create_task(read(client, one)) for one in times]
        for _ in readers:
            await ready.acquire()
        for number in range(DECISIONS):
            sent.append(time.perf_counter())
            await client.patch(f"/api/tasks/{task}", json={"priority": ("low", "high")[number % 2]})
            await asyncio.sleep(PAUSE)
        await asyncio.sleep(10 * PAUSE)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return [_first_after(began, one) - began for began in sent for one in times]


def _first_after(began: float, heard: list[float]) -> float:
    return next((at for at in heard if at > began), float("inf"))
