"""The default policy of retention on ten thousand ended tasks, carried out by a daemon that answers requests meanwhile.

The tasks ended over the last 300 days, each with a worktree of a real repository, a transcript, a session, logs, a
checkpoint and a summary; of every twentieth the commits are nowhere else. Those that ended long ago are archived too.
The daemon is a process of its own with default settings. Its housekeeping begins by itself two minutes after the start,
and says in the log when it has done everything; until it begins, requests show how fast the machine is without it.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from orchestrator.formats.disk.trees import usage_of
from orchestrator.settings.environment import environment
from orchestrator.storage.removal.log import RemovalLog
from tests.fakes.many_ended_tasks import make_many_ended_tasks

Row = tuple[str, str, str]

TASKS = 10_000
DAYS = 300
PATHS = ("/api/status", "/api/tasks?limit=50", "/api/tasks/T-00000")
BETWEEN_REQUESTS, READY_AFTER = 0.2, 120.0  # seconds
NIGHT = 8 * 3600.0  # seconds
MIB = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class Observed:
    """What was seen of a daemon: seconds that requests took before housekeeping and during it, its largest memory."""

    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    memory: float = 0.0


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        make_many_ended_tasks(root / "data", root / "repo", TASKS, DAYS)
        return measure(root)


def measure(root: Path) -> list[Row]:
    """Return the measurements of a folder with the tasks in `data`."""
    full = usage_of(root / "data").size
    with _daemon(root) as process:
        seen, done, seconds, used = _follow(root, process)
    left = usage_of(root / "data").size
    lines = RemovalLog(root / "data").since("")
    what = Counter(f"{line['action']} {line['kind']}" for line in lines)
    return [
        (f"retention: {done['items']:,} items of {TASKS:,} tasks", f"{seconds / 60:.1f} min", f"≤ {NIGHT / 60:.0f}"),
        ("retention: of these, in a second", f"{done['items'] / seconds:.1f}", ""),
        ("retention: processor time, with that of git", f"{used / 60:.1f} min", ""),
        ("retention: what was done", ", ".join(f"{count} {name}" for name, count in sorted(what.items())), ""),
        ("retention: kept because it is nowhere else", f"{done['kept']:,}", ""),
        ("retention: disk before", f"{full / MIB:,.0f} MiB", ""),
        ("retention: disk after", f"{left / MIB:,.0f} MiB", ""),
        ("retention: a request before it, median / p99", _times(seen.before), ""),
        ("retention: a request meanwhile, median / p99", _times(seen.during), "≤ 250 ms"),
        ("retention: largest memory of the daemon", f"{seen.memory:.0f} MB", ""),
    ]


def _follow(root: Path, process: psutil.Process) -> tuple[Observed, dict[str, int], float, float]:
    """Ask the daemon until its housekeeping is done; return also what it says of that, and what that cost."""
    seen, done, begun = Observed(), threading.Event(), time.monotonic() + READY_AFTER
    asking = threading.Thread(target=_ask, args=(root / "data/s", process, begun, seen, done))
    asking.start()
    try:
        time.sleep(READY_AFTER)
        before = _processor_seconds(process)
        while not (found := list(_said(root / "daemon.log", "retention_followed"))):
            if process.status() == psutil.STATUS_ZOMBIE:
                raise ChildProcessError((root / "daemon.log").read_text()[-2000:])
            time.sleep(1)
        return seen, found[0], float(found[0]["seconds"]), _processor_seconds(process) - before
    finally:
        done.set()
        asking.join()


def _ask(path: Path, process: psutil.Process, begun: float, seen: Observed, done: threading.Event) -> None:
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(transport=transport, base_url="http://daemon", timeout=300) as client:
        while not done.wait(BETWEEN_REQUESTS):
            for place in PATHS:
                sent = time.monotonic()
                client.get(place).raise_for_status()
                (seen.before if sent < begun else seen.during).append(time.monotonic() - sent)
            seen.memory = max(seen.memory, process.memory_info().rss / 1e6)


def _said(log: Path, event: str) -> Iterator[dict[str, int]]:
    for line in log.read_text().splitlines():
        if event in line:
            yield json.loads(line)


@contextmanager
def _daemon(root: Path) -> Iterator[psutil.Process]:
    """Start a daemon and wait for its first answer."""
    (root / "orchestrator.toml").write_text('isolation = "none"\n[log]\nformat = "json"\n')
    options = ["--config", str(root / "orchestrator.toml"), "--data-dir", str(root / "data")]
    argv = [sys.executable, "-m", "orchestrator", *options, "--socket", str(root / "data/s"), "serve"]
    (root / "data/s").unlink(missing_ok=True)
    with (root / "daemon.log").open("wb") as log, subprocess.Popen(argv, env=environment(), stderr=log) as daemon:
        try:
            while not (root / "data/s").exists():
                if daemon.poll() is not None:
                    raise ChildProcessError((root / "daemon.log").read_text()[-2000:])
                time.sleep(0.01)
            yield psutil.Process(daemon.pid)
        finally:
            daemon.terminate()


def _processor_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended."""
    used = process.cpu_times()
    return used.user + used.system + used.children_user + used.children_system


def _times(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "-"
    p99 = statistics.quantiles(seconds, n=100)[98]
    return f"(max {max(seconds):.2f} s) {1000 * statistics.median(seconds):.0f} / {1000 * p99:.0f} ms"
