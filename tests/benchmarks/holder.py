"""What a holder costs: time over a bare spawn, memory, and the time from a freeze's request to a tree that stands."""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from orchestrator.processes.census import tree_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, RunSpec

Row = tuple[str, str, str]
LIMITS = Limits(floor_bytes=0, eof_grace=0.1, term_grace=0.1)
TALKER = "import time\nwhile True:\n    print('x' * 200, flush=True)\n    time.sleep(0.01)\n"


def rows() -> list[Row]:
    """Name, measured value and goal of each measurement, all taken in one run."""
    return [*asyncio.run(_dispatch()), *asyncio.run(_twenty())]


def _bare_spawn() -> float:
    began = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
    return time.perf_counter() - began


async def _dispatch(times: int = 50) -> list[Row]:
    """From the order to an agent that runs, known to the daemon, beside spawn and end of the same program alone."""
    bare, held = [], []
    with tempfile.TemporaryDirectory() as base:
        runs = Runs(data_dir=Path(base))
        for number in range(times):
            bare.append(_bare_spawn())
            spec = RunSpec(run=f"bench/{number}", argv=("/bin/true",), cwd=Path(base), env={}, limits=LIMITS)
            began = time.perf_counter()
            await runs.start(Path(base, str(number)), spec)
            held.append(time.perf_counter() - began)
        await runs.close()
    over = (statistics.median(held) - statistics.median(bare)) * 1000
    ratio = statistics.median(held) / statistics.median(bare)
    return [("dispatch over a bare spawn, median", f"{over:.1f} ms ({ratio:.0f} times)", "≤ 15 ms")]


async def _twenty(freezes: int = 100) -> list[Row]:
    """Twenty agents that write 100 lines a second each: what their holders weigh, how fast one tree stands still."""
    with tempfile.TemporaryDirectory() as base:
        runs = Runs(data_dir=Path(base))
        runs.watch(lambda _folder: None)
        folders = [Path(base, str(number)) for number in range(20)]
        for folder in folders:
            argv = (sys.executable, "-I", "-S", "-c", TALKER)
            await runs.start(folder, RunSpec(run=folder.name, argv=argv, cwd=Path(base), env={}, limits=LIMITS))
        took = []
        for number in range(freezes):
            folder = folders[number % len(folders)]
            began = time.perf_counter()
            await runs.freeze(folder)
            took.append(time.perf_counter() - began)
            await runs.thaw(folder)
        weights = [psutil.Process(tree_of(folder)[0].pid).memory_full_info().pss / 1e6 for folder in folders]
        for folder in folders:
            await runs.stop(folder)
        while any(runs.is_alive(folder) for folder in folders):  # noqa: ASYNC110  (twenty ends, not one event)
            await asyncio.sleep(0.05)
        await runs.close()
    took.sort()
    return [
        ("memory of a holder, PSS, median of 20", f"{statistics.median(weights):.1f} MB", "≤ 6 MB"),
        (
            "freeze asked to tree stopped, 20 agents of 100 lines/s, median / p99",
            f"{took[len(took) // 2] * 1000:.1f} / {took[int(len(took) * 0.99) - 1] * 1000:.1f} ms",
            "≤ 8 ms",
        ),
    ]
