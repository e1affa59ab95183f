"""A long queue: the daemon's start, its memory, and what its pages take of the event loop, with 10,000 waiting tasks.

2,000 more have ended. One agent is at work, so nothing else starts. What a page takes of the loop is the processor
time of the loop's thread (schedstat) from the request to its answer, the least of several: it is little affected by
what else the machine does.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from orchestrator.settings.environment import environment
from tests.fakes.many_queued_tasks import make_many_queued_tasks

Row = tuple[str, str, str]

QUEUED, ENDED = 10_000, 2_000
TIMES = 4
PATIENCE = 600.0  # seconds
PLACES = (
    "/",
    "/now/alarms",
    "/board",
    "/board?by=stage",
    "/tasks?text=flag",
    "/limits/now",
    "/schedules",
    "/disk",
    "/api/limits",
    "/api/overview",
    "/api/tasks?limit=1000",
    "/metrics",
)


def rows() -> Iterator[Row]:
    """Return name, measured value and goal of each measurement, all taken with one daemon."""
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        make_many_queued_tasks(root, QUEUED, ENDED)
        with _daemon(root) as (started, process):
            used = process.cpu_times()
            yield f"backlog: start with {QUEUED:,} tasks that wait", f"{started:.1f} s", ""
            yield "backlog: processor time of that start", f"{used.user + used.system:.1f} s", "≤ 60 s"
            _await_rest(process.pid)
            for place in PLACES:
                yield f"backlog: {place}, of the loop", f"{_of_the_loop(root, process.pid, place):.1f} ms", "≤ 50 ms"
            yield "backlog: memory", f"{process.memory_info().rss / 1e6:.0f} MB", ""


def _await_rest(pid: int) -> None:
    """Wait until the loop works less than a tenth of the time: each task was told of the start, and nothing begins."""
    end, before = time.monotonic() + PATIENCE, 0.0
    while (now := _worked(pid)) - before > 100 and time.monotonic() < end:
        before = now
        time.sleep(1)


def _of_the_loop(root: Path, pid: int, place: str) -> float:
    """Return the milliseconds that the loop's thread works for a page."""
    took = []
    with _client(root) as client:
        for _ in range(TIMES):
            before = _worked(pid)
            client.get(place).raise_for_status()
            took.append(_worked(pid) - before)
    return min(took)


def _worked(pid: int) -> float:
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e6


def _client(root: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(root / "data/s"))
    return httpx.Client(transport=transport, base_url="http://daemon", timeout=PATIENCE)


@contextmanager
def _daemon(root: Path) -> Iterator[tuple[float, psutil.Process]]:
    """Start a daemon and yield the seconds to its first answer; its agent ends with it."""
    options = ["--config", str(root / "orchestrator.toml"), "--data-dir", str(root / "data")]
    argv = [sys.executable, "-m", "orchestrator", *options, "--socket", str(root / "data/s"), "serve"]
    began = time.perf_counter()
    with (root / "daemon.log").open("ab") as log, subprocess.Popen(argv, env=environment(), stderr=log) as daemon:
        process = psutil.Process(daemon.pid)
        try:
            while not (root / "data/s").exists():
                if time.perf_counter() - began > PATIENCE or daemon.poll() is not None:
                    raise TimeoutError((root / "daemon.log").read_text()[-2000:])
                time.sleep(0.01)
            with _client(root) as client:
                client.get("/api/status").raise_for_status()
            yield time.perf_counter() - began, process
        finally:
            for child in process.children(recursive=True):
                child.send_signal(signal.SIGKILL)
            daemon.kill()
