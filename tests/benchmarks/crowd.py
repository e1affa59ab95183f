"""Many clients at once: 500 submissions by 50 clients, a restart with all of these waiting, readers that never read.

The tasks belong to one repository and wait behind one whose agent thinks for the whole time. A daemon counts as
restarted when it has answered a request. The readers follow all events from the first one on, and leave what they get
in the socket; the memory is that of the daemon before they came and after it has sent them all it will.
"""

import json
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil

from orchestrator.pipelines.bundled import Kind, bundled
from tests.benchmarks.started_daemon import client_of, started_daemon
from tests.fakes.repositories import commit, git

Row = tuple[str, str, str]

TASKS, CLIENTS, READERS = 500, 50, 400
SETTLED = 3.0  # seconds without a change of more than 1 % of the daemon's memory


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    with tempfile.TemporaryDirectory() as base:
        root = Path(base)
        repo = root / "repo"
        repo.mkdir()
        git(repo, "init", "--quiet", "--initial-branch=main")
        commit(repo, {"README.md": "# a crowd\n"})
        _settings(root)
        with started_daemon(root) as (_, process):
            idle = _processor_seconds(process)
            took, worst = _submit(root / "data/s", repo)
            used = _processor_seconds(process) - idle
        with started_daemon(root) as (restart, process):
            to_start = _processor_seconds(process)
            before, after = _memory_of_readers(root / "data/s", process)
        return [
            (f"crowd: {TASKS} submissions by {CLIENTS} clients, worst one", f"{worst:.1f} s", "≤ 10 s"),
            ("crowd: all of them", f"{took:.1f} s (the daemon's processor time {used:.1f} s)", "≤ 10 s"),
            (
                f"crowd: restart with {TASKS} unfinished tasks",
                f"{restart:.2f} s (processor time {to_start:.2f} s)",
                "≤ 2 s",
            ),
            (f"crowd: memory before {READERS} readers that never read", f"{before:.0f} MB", ""),
            ("crowd: memory with them", f"{after / before:.2f} times", "≤ 1.5"),
        ]


def _settings(root: Path) -> None:
    scenario = {"ANALYSIS": [{"think_ms": 3_600_000}]}
    (root / "orchestrator.toml").write_text(
        f"""
isolation = "none"
[agent]
driver = "command"
command = [{json.dumps(sys.executable)}, {json.dumps(str(bundled(Kind.SCRIPTED_AGENT)))}]
[agent.env]
ORCHESTRATOR_SCENARIO = {json.dumps(json.dumps(scenario))}
ORCHESTRATOR_SCRIPTED_HOME = {json.dumps(str(root / "agent"))}
"""
    )


def _submit(path: Path, repo: Path) -> tuple[float, float]:
    """Submit all tasks; return how long all took, and the slowest one."""

    def submit(client: httpx.Client) -> float:
        worst = 0.0
        for number in range(TASKS // CLIENTS):
            began = time.perf_counter()
            body = {"text": f"Add the flag number {number}\n", "repo": str(repo), "checks": {"unit_test": "true"}}
            client.post("/api/tasks", json=body).raise_for_status()
            worst = max(worst, time.perf_counter() - began)
        return worst

    with ExitStack() as stack, ThreadPoolExecutor(CLIENTS) as pool:
        clients = [stack.enter_context(client_of(path)) for _ in range(CLIENTS)]
        began = time.perf_counter()
        slowest = max(pool.map(submit, clients))
        return time.perf_counter() - began, slowest


def _processor_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended."""
    used = process.cpu_times()
    return used.user + used.system + used.children_user + used.children_system


def _memory_of_readers(path: Path, process: psutil.Process) -> tuple[float, float]:
    """Return the memory in MB before and with the readers."""
    before = _settled(process)
    with ExitStack() as stack:
        for _ in range(READERS):
            reader = stack.enter_context(socket.socket(socket.AF_UNIX))
            reader.connect(str(path))
            reader.sendall(b"GET /api/events?from=0&whole=true HTTP/1.1\r\nHost: daemon\r\n\r\n")
        return before, _settled(process)


def _settled(process: psutil.Process) -> float:
    """Return the memory of a process in MB when it has not changed for a while."""
    seen, since = process.memory_info().rss, time.monotonic()
    while time.monotonic() - since < SETTLED:
        time.sleep(0.1)
        now = process.memory_info().rss
        if abs(now - seen) > seen / 100:
            seen, since = now, time.monotonic()
    return seen / 1e6
