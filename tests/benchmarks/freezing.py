"""Thaw two hundred frozen agents at once, by control groups and by signals; memory freed by ending a frozen session.

A file counts the rounds. While all agents are frozen the next round starts in it; an agent that sees a new round writes
the time into its slot there, and so does its child in another session. A process that slept while frozen wakes when
thawed.
"""

import asyncio
import mmap
import os
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path

from orchestrator.agents.installation import ClaudeMissing, find_claude
from orchestrator.processes.output import read_lines_from
from orchestrator.processes.process_stats import tree_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, RunSpec, Stdin
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Say
from tests.integration.claude_session import Place

Row = tuple[str, str, str]

AGENTS = 200
ROUNDS = 5
PATIENCE = 60.0  # seconds
LIMITS = Limits(floor_bytes=0, eof_grace=0.1, term_grace=0.1)
STAND_IN = """
import mmap, os, struct, sys, time
clock = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
place = 8 + int(sys.argv[2]) * 16
if os.fork() == 0:
    os.setsid()
    place += 8
known = 0
while True:
    (begun,) = struct.unpack_from("q", clock)
    if begun != known:
        struct.pack_into("q", clock, place, time.monotonic_ns())
        known = begun
    time.sleep(0.05)
"""


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    return [
        *asyncio.run(_burst("control groups", cgroup=True)),
        *asyncio.run(_burst("signals", cgroup=False)),
        asyncio.run(_freed()),
    ]


async def _burst(way: str, *, cgroup: bool) -> list[Row]:
    """Freeze all one after the other and thaw all at once, for some rounds."""
    with tempfile.TemporaryDirectory() as base:
        runs = Runs(data_dir=Path(base))
        runs.watch(lambda _folder: None)
        clock = _clock(Path(base, "clock"))
        folders = [Path(base, str(number)) for number in range(AGENTS)]
        for number, folder in enumerate(folders):
            argv = (sys.executable, "-I", "-S", "-c", STAND_IN, f"{base}/clock", str(number))
            spec = RunSpec(
                run=folder.name, argv=argv, cwd=Path(base), env={}, limits=LIMITS, stdin=Stdin.NULL, cgroup=cgroup
            )
            await runs.start(folder, spec)
        freezes, thaws, lasts = [], [], []
        try:
            await _all_run(clock, _begin(clock, 1))
            for number in range(ROUNDS):
                for folder in folders:
                    began = time.monotonic_ns()
                    frozen = await runs.freeze(folder)
                    freezes.append(time.monotonic_ns() - began)
                    held_as_asked = (frozen.cgroup is not None) is cgroup
                    if frozen.survivors or not held_as_asked:
                        raise RuntimeError(f"this machine does not freeze by {way}: {frozen}")
                began = _begin(clock, number + 2)
                await asyncio.gather(*(runs.thaw(folder) for folder in folders))
                times = await _all_run(clock, began)
                thaws += times
                lasts.append(max(times))
        finally:
            await asyncio.gather(*(runs.stop(folder) for folder in folders))
            while any(runs.is_alive(folder) for folder in folders):  # noqa: ASYNC110  (two hundred ends, not one event)
                await asyncio.sleep(0.05)
            await runs.close()
    thaws.sort()
    return [
        (
            f"{AGENTS} frozen agents thawed at once by {way}: one runs, median / all run, median of {ROUNDS} / worst",
            f"{_ms(thaws)} / {_ms(lasts)} / {max(lasts) / 1e6:.0f} ms",
            "≤ 2000 ms",
        ),
        (f"one of {AGENTS} frozen by {way}, median / worst", f"{_ms(freezes)} / {max(freezes) / 1e6:.0f} ms", ""),
    ]


def _ms(nanoseconds: list[int]) -> str:
    return f"{statistics.median(nanoseconds) / 1e6:.1f}"


def _clock(path: Path) -> mmap.mmap:
    """The file that counts the rounds, with a slot for every agent and its child."""
    path.write_bytes(bytes(8 + 16 * AGENTS))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def _begin(clock: mmap.mmap, number: int) -> int:
    """Start a round; return the time just before, so that every process that sees the round writes a later one."""
    began = time.monotonic_ns()
    struct.pack_into("q", clock, 0, number)
    return began


async def _all_run(clock: mmap.mmap, began: int) -> list[int]:
    """Return for each agent how long after the start of the round both it and its child ran."""
    deadline = time.monotonic() + PATIENCE
    while True:
        times = struct.unpack_from(f"{2 * AGENTS}q", clock, 8)
        if min(times) > began:
            return [max(pair) - began for pair in zip(times[::2], times[1::2], strict=True)]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sum(ran <= began for ran in times)} processes do not run after {PATIENCE} s")
        await asyncio.sleep(0.005)


async def _freed() -> Row:
    """Return the memory of a real session that has answered one turn: running, frozen, and ended."""
    what = "PSS of an idle claude session with its holder: running / frozen / freed by ending it"
    try:
        claude = find_claude("", os.environ.get("PATH"))
    except ClaudeMissing as missing:
        return what, f"not measured: {missing}", ""
    with tempfile.TemporaryDirectory() as base, MessagesApi(lambda _scene: Say("Done.")) as api:
        place = Place(claude, Path(base, "place"))
        driver, order = place.driver(api), place.order()
        launched = driver.launch(order)
        runs, folder = Runs(data_dir=Path(base, "data")), Path(base, "data", "run")
        spec = RunSpec(run="claude", argv=launched.argv, cwd=order.cwd, env=launched.env)
        await runs.start(folder, spec)
        await runs.send(folder, driver.turn("Begin.", "00000000-0000-4000-8000-000000000001"))
        while b'"type":"result"' not in read_lines_from(folder, 0)[0]:  # noqa: ASYNC110  (its output is a file)
            await asyncio.sleep(0.05)
        running = _pss(folder)
        await runs.freeze(folder)
        frozen = _pss(folder)
        await runs.stop(folder)
        while runs.is_alive(folder):  # noqa: ASYNC110  (a lock, not an event)
            await asyncio.sleep(0.05)
        freed = frozen - _pss(folder)
        await runs.close()
    return what, f"{running:.0f} / {frozen:.0f} / {freed:.0f} MB", ""


def _pss(folder: Path) -> float:
    return sum(process.memory_full_info().pss for process in tree_of(folder)) / 1e6
