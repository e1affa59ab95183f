"""The cost of a holder: time beyond a bare spawn, memory, and the time from a freeze request to a stopped tree."""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

from orchestrator.processes.process_stats import tree_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, RunSpec
from orchestrator.redaction.masking import NO_MASKS, Masks, masks_of
from tests.integration.processes.stage import sandbox_around

Row = tuple[str, str, str]
LIMITS = Limits(floor_bytes=0, eof_grace=0.1, term_grace=0.1)
PUMPED = 256 << 20  # bytes
FLOOD = f"""import os
line = b'{{"type":"user","message":{{"content":[{{"content":"' + b"a line of a log " * 50 + b'"}}]}}}}'
block = (line + b"\\n") * 64
for _ in range({PUMPED} // len(block)):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
input()
"""
AT_WORK = """import os, select
print("at work", flush=True)
asked = select.select([0], [], [])[0] and b"interrupt" in os.read(0, 4096)
while asked and os.read(0, 4096):
    pass
asked or select.select([], [], [], 15)
"""
TALKER = "import time\nwhile True:\n    print('x' * 200, flush=True)\n    time.sleep(0.01)\n"


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    return [
        *asyncio.run(_dispatch()),
        *asyncio.run(_in_sandboxes()),
        *asyncio.run(_twenty()),
        *asyncio.run(_pumping()),
        *asyncio.run(_stopping()),
    ]


def _bare_spawn(argv: tuple[str, ...] = ("/bin/true",)) -> float:
    began = time.perf_counter()
    os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)
    return time.perf_counter() - began


async def _dispatch(times: int = 50) -> list[Row]:
    """Return the time from an order to a running agent known to the daemon, and that of a bare spawn and end."""
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


async def _in_sandboxes(times: int = 50) -> list[Row]:
    """Return what a sandbox adds to a command: time of its start and end, and memory while it lives."""
    spent: dict[bool, list[float]] = {False: [], True: []}
    weights = []
    with tempfile.TemporaryDirectory() as base:
        runs = Runs(data_dir=Path(base))
        around = sandbox_around(Path(base), Path(base))
        for _ in range(times):
            spent[False].append(_bare_spawn())
            spent[True].append(_bare_spawn((*around, "/bin/true")))
        for number in range(5):
            folder = Path(base, f"sleeper-{number}")
            sleep = ("/bin/sleep", "60")
            spec = RunSpec(run=folder.name, wrap=around, argv=sleep, cwd=Path(base), env={}, limits=LIMITS)
            await runs.start(folder, spec)
            while len(tree_of(folder)) < 4:  # noqa: ASYNC110  (until the sandbox has started its command)
                await asyncio.sleep(0.01)
            own = tree_of(folder)[1:3]
            weights.append(sum(process.memory_full_info().pss for process in own) / 1e6)
            await runs.stop(folder)
        await runs.close()
    added = (statistics.median(spent[True]) - statistics.median(spent[False])) * 1000
    return [
        ("sandbox over a bare spawn, median", f"{added:.1f} ms", "≤ 5 ms"),
        (
            "memory of a sandbox besides holder and command, PSS, median",
            f"{statistics.median(weights):.1f} MB",
            "≤ 2 MB",
        ),
    ]


async def _twenty(freezes: int = 100) -> list[Row]:
    """Run twenty agents that write 100 lines a second each; return the memory of their holders and the freeze time."""
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


async def _pumped(folder: Path, masks: Masks) -> float:
    """Return MB per second of the holder's processor time; wall time would include the rest of the machine."""
    runs = Runs(data_dir=folder)
    argv = (sys.executable, "-I", "-S", "-c", FLOOD)
    await runs.start(folder, RunSpec(run=folder.name, argv=argv, cwd=folder, env={}, limits=LIMITS, masks=masks))
    holder = tree_of(folder)[0]
    while _size(folder) < PUMPED * 0.99:  # noqa: ASYNC110  (many files that grow)
        await asyncio.sleep(0.05)
    times = holder.cpu_times()
    await runs.stop(folder)
    while runs.is_alive(folder):  # noqa: ASYNC110  (an end without a notification)
        await asyncio.sleep(0.05)
    await runs.close()
    return PUMPED / 1e6 / (times.user + times.system)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("stdout*"))


async def _pumping(times: int = 3) -> list[Row]:
    """Send a flood of output through a holder, without a provided value and with one."""
    speeds: dict[str, list[float]] = {"nothing provided": [], "one value provided": []}
    for _ in range(times):
        for name, masks in zip(speeds, (NO_MASKS, masks_of({"DB_PASSWORD": "s3cr3t-Value/+!x"})), strict=True):
            with tempfile.TemporaryDirectory() as base:
                speeds[name].append(await _pumped(Path(base), masks))
    return [
        (
            f"output through a holder, {name}, median",
            f"{statistics.median(speed):.0f} MB per second of its own",
            "≥ 100 MB",
        )
        for name, speed in speeds.items()
    ]


async def _stopping(times: int = 100) -> list[Row]:
    """Interrupt an agent that finishes its turn otherwise, and stop it at once, as cancel and drain do."""
    took = []
    with tempfile.TemporaryDirectory() as base:
        runs = Runs(data_dir=Path(base))
        for number in range(times):
            folder = Path(base, str(number))
            argv = (sys.executable, "-I", "-S", "-c", AT_WORK)
            await runs.start(folder, RunSpec(run=folder.name, argv=argv, cwd=Path(base), env={}))
            while not _size(folder):  # noqa: ASYNC110  (until it is at work)
                await asyncio.sleep(0.005)
            began = time.perf_counter()
            await runs.send(folder, b'{"interrupt":true}\n')
            await runs.stop(folder)
            while runs.is_alive(folder):  # noqa: ASYNC110  (an end without a notification)
                await asyncio.sleep(0.005)
            took.append(time.perf_counter() - began)
        await runs.close()
    quick = sum(seconds <= 2 for seconds in took)
    return [
        (f"agents gone 2 s after cancel, of {times} (slowest {max(took) * 1000:.0f} ms)", str(quick), f"≥ {times}"),
    ]
