"""The whole daemon: its start with ten thousand finished tasks and with none, and its usage while idle.

A daemon counts as started when it has answered a request. Both are measured alternately, so that they see the same
machine, and idle together. Processor time is what the scheduler counted for every thread (schedstat), in nanoseconds.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import orjson
import psutil

from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from orchestrator.formats.files import sealed, unsealed
from orchestrator.settings.environment import environment
from orchestrator.storage.journal import seal_key
from orchestrator.storage.state_file import BELOW
from orchestrator.storage.store import FolderStore
from tests.benchmarks.store import NIGHT, a_worked_on_task

Row = tuple[str, str, str]

FINISHED = 10_000
STARTS = 5
IDLE = 30.0  # seconds
SETTLED = 2.0  # seconds that a daemon has been up before it counts as idle
PATIENCE = 30.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A daemon that answers requests: how long its start took, and its memory in MB."""

    process: psutil.Process
    seconds: float
    rss: float
    pss: float


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    with tempfile.TemporaryDirectory() as base:
        full, empty = Path(base, "full"), Path(base, "empty")
        _finish(full)
        return [*_starts(full, empty), *_idle(full, empty)]


def _starts(full: Path, empty: Path) -> list[Row]:
    seen: dict[Path, list[Started]] = {full: [], empty: []}
    for _ in range(STARTS):
        for data, starts in seen.items():
            with _daemon(data) as started:
                starts.append(started)
    seconds, rss, pss = (
        {data: statistics.median(getattr(one, name) for one in all_of) for data, all_of in seen.items()}
        for name in ("seconds", "rss", "pss")
    )
    return [
        ("daemon: start on an empty folder", f"{seconds[empty]:.2f} s", ""),
        (f"daemon: start with {FINISHED:,} finished tasks", f"{seconds[full]:.2f} s", ""),
        ("daemon: what they add to the start, warm", f"{seconds[full] - seconds[empty]:.2f} s", "≤ 0.3 s"),
        ("daemon: memory on an empty folder, RSS / PSS", f"{rss[empty]:.0f} / {pss[empty]:.0f} MB", ""),
        ("daemon: what they add to RSS", f"{rss[full] - rss[empty]:.1f} MB", "≤ 20 MB"),
        ("daemon: what they add to PSS", f"{pss[full] - pss[empty]:.1f} MB", "≤ 20 MB"),
    ]


def _idle(full: Path, empty: Path) -> list[Row]:
    with ExitStack() as stack:
        idle = {name: stack.enter_context(_daemon(data)).process for name, data in (("full", full), ("empty", empty))}
        time.sleep(SETTLED)
        before = {name: (_processor_seconds(process), _wake_ups(process)) for name, process in idle.items()}
        time.sleep(IDLE)
        after = {name: (_processor_seconds(process), _wake_ups(process)) for name, process in idle.items()}
    rows = []
    for name, (used, woken) in after.items():
        share, often = 100 * (used - before[name][0]) / IDLE, (woken - before[name][1]) / IDLE
        rows.append(
            (f"daemon: idle for {IDLE:.0f} s, {name} folder", f"{share:.2f} % ({often:.0f} wake-ups/s)", "≤ 0.2 %")
        )
    return rows


@contextmanager
def _daemon(data: Path) -> Iterator[Started]:
    """Start a daemon on a data folder and wait for its first answer."""
    argv = [sys.executable, "-m", "orchestrator", "--data-dir", str(data), "--socket", str(data / "s"), "serve"]
    began = time.perf_counter()
    with subprocess.Popen(argv, env=environment(), stderr=subprocess.DEVNULL) as daemon:
        try:
            _await_answer(data / "s", began)
            seconds = time.perf_counter() - began
            process = psutil.Process(daemon.pid)
            weight = process.memory_full_info()
            yield Started(process=process, seconds=seconds, rss=weight.rss / 1e6, pss=weight.pss / 1e6)
        finally:
            daemon.terminate()


def _await_answer(socket: Path, began: float) -> None:
    while not socket.exists():
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"no daemon on {socket}")
        time.sleep(0.002)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=PATIENCE) as client:
        client.get("http://daemon/api/status").raise_for_status()


def _finish(data: Path) -> None:
    """Create ended tasks: one by the store, all others as copies of it."""
    store = FolderStore(data)
    task = replace(a_worked_on_task(data, "ABC-00000_20261121_220000"), status=TaskStatus.COMPLETED)
    store.commit(None, task, TaskSubmitted(at=NIGHT, task=task))
    store.close()
    folder = store.files.path_of(task.id)
    (folder / SUMMARY_FILE).touch()
    state, journal = (
        unsealed((folder / "state.json").read_bytes(), key=seal_key(folder)),
        (folder / "journal.jsonl").read_bytes(),
    )
    for number in range(1, FINISHED):
        name = task.id.replace("00000", f"{number:05d}")
        another = folder.with_name(name)
        another.mkdir(mode=0o700)
        (another / SUMMARY_FILE).touch()
        (another / "journal.jsonl").write_bytes(journal.replace(task.id.encode(), name.encode()))
        document = orjson.loads(orjson.dumps(state).replace(task.id.encode(), name.encode()))
        (another / "state.json").write_bytes(sealed(document, below=BELOW, key=seal_key(another)))


def _processor_seconds(process: psutil.Process) -> float:
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _wake_ups(process: psutil.Process) -> int:
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    fields = [line.split() for task in tasks for line in (task / "status").read_text().splitlines()]
    return sum(
        int(value) for name, value, *_ in (field for field in fields if field[1:]) if name == "voluntary_ctxt_switches:"
    )
