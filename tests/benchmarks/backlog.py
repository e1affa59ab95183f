"""A long queue: the daemon's start, its memory, and what its pages take of the event loop, with 10,000 waiting tasks.

2,000 more have ended. One agent is at work, so nothing else starts. What a page takes of the loop is the processor
time of the loop's thread (schedstat) from the request to its answer, the least of several: it is little affected by
what else the machine does.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.started_daemon import PATIENCE, client_of, started_daemon
from tests.fakes.many_queued_tasks import make_many_queued_tasks

Row = tuple[str, str, str]

QUEUED, ENDED = 10_000, 2_000
TIMES = 4
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
        with started_daemon(root) as (started, process):
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
    with client_of(root / "data/s") as client:
        for _ in range(TIMES):
            before = _worked(pid)
            client.get(place).raise_for_status()
            took.append(_worked(pid) - before)
    return min(took)


def _worked(pid: int) -> float:
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e6
