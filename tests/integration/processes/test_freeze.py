"""Freezing a whole process tree, and thawing it."""

import asyncio
import fcntl
import os
import signal
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from orchestrator.processes.spec import Limits, RunGone, State
from tests.fakes.waiting import until
from tests.integration.processes.stage import PATIENCE, QUICK, TICKER, Stage, python, shell, stands_still, state_of

LONG_ENOUGH_TO_TICK = 0.3  # seconds, time for a few dozen ticks

# Waits as for a dead disk: in the kernel, for a page that only this process itself could provide.
WAITS_FOR_A_PAGE = """
import ctypes, fcntl, mmap, os, platform, struct
libc = ctypes.CDLL(None)
faults = libc.syscall({"x86_64": 323}.get(platform.machine(), 282), os.O_CLOEXEC)
try:
    fcntl.ioctl(faults, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
except (OSError, ValueError):
    print("waiter may not", flush=True)
    raise
page = mmap.mmap(-1, 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(faults, 0xC020AA00, bytearray(struct.pack("QQQQ", address, 4096, 1, 0)))
print("waiter", os.getpid(), "waits", flush=True)
libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(4096))
"""


async def ticks_while(stage: Stage, folder: Path) -> int:
    """Return how many bytes of ticks arrive in a while."""
    before = len(stage.output(folder))
    await asyncio.sleep(LONG_ENOUGH_TO_TICK)
    return len(stage.output(folder)) - before


async def assert_silent(stage: Stage, folder: Path) -> None:
    """Whether no output arrives any more, once the holder has written what was in the pipe."""
    status = stage.runs.status_of(folder)
    assert status is not None
    await until(lambda: is_empty(Path(f"/proc/{status.stopped[0]}/fd/1")), "the end of what stood in the pipe")
    await ticks_while(stage, folder)
    assert await ticks_while(stage, folder) == 0


def is_empty(pipe: Path) -> bool:
    """Whether a pipe has nothing to read."""
    with pipe.open("rb", buffering=0) as reader:
        return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder) == 0


async def test_a_frozen_command_stops_ticking_and_continues_after_the_thaw(stage: Stage) -> None:
    folder = await stage.start(shell(TICKER))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    assert frozen.stopped
    assert not frozen.survivors
    assert all(stands_still(pid) for pid in frozen.stopped)
    await assert_silent(stage, folder)
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")


async def test_a_command_in_its_own_session_stops_too(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & wait"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    sessions = {os.getsid(pid) for pid in frozen.stopped}
    assert len(sessions) > 1
    await assert_silent(stage, folder)
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")


async def test_the_agent_gets_sigtstp_first(stage: Stage) -> None:
    code = (
        "import os, signal, time\n"
        "def tidy(*_):\n"
        "    print('asked', flush=True)\n"
        "    signal.signal(signal.SIGTSTP, signal.SIG_DFL)\n"
        "    os.kill(os.getpid(), signal.SIGTSTP)\n"
        "signal.signal(signal.SIGTSTP, tidy)\n"
        "print('up', flush=True)\n"
        "while True: time.sleep(10)\n"
    )
    folder = await stage.start((*python(code)[:1], "-c", code))
    await stage.says(folder, b"up")
    while b"asked" not in stage.output(folder):  # a slow machine stops it before it has reacted
        assert not (await stage.runs.freeze(folder)).survivors
        await stage.runs.thaw(folder)


async def test_a_process_that_ignores_sigtstp_is_stopped_all_the_same(stage: Stage) -> None:
    folder = await stage.start(shell(f"trap '' TSTP; {TICKER}"))
    await stage.says(folder, b"3\n")
    frozen = await stage.runs.freeze(folder)
    assert not frozen.survivors
    assert all(stands_still(pid) for pid in frozen.stopped)


async def test_a_tree_that_forks_all_the_time_is_stopped_completely(stage: Stage) -> None:
    forker = "while :; do (setsid sh -c 'sleep 0.05' &) ; sh -c : ; done"
    folder = await stage.start(shell(f"echo up; {forker} & {forker}"))
    await stage.says(folder, b"up")
    for _ in range(20):
        frozen = await stage.runs.freeze(folder)
        assert not frozen.survivors
        assert all(stands_still(pid) for pid in frozen.stopped)
        await stage.runs.thaw(folder)


async def test_a_process_stuck_between_fork_and_exec_counts_as_stopped(stage: Stage) -> None:
    code = (
        "import os; os.mkfifo('never'); print('parent', os.getpid(), flush=True);"
        "os.posix_spawn('/bin/true', ['true'], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, 'never', os.O_RDONLY, 0)])"
    )
    folder = await stage.start((*python(code)[:1], "-c", code))
    await stage.says(folder, b"\n")
    parent = stage.pid_of(folder, int(stage.output(folder).split()[1]))
    await until(psutil.Process(parent).children, "the child that comes to no exec")
    frozen = await stage.runs.freeze(folder)
    assert not frozen.survivors
    assert len(frozen.stopped) == (4 if stage.sandbox else 2)  # with the two of the sandbox itself


async def test_a_process_in_disk_sleep_does_not_keep_the_others_from_being_frozen(stage: Stage) -> None:
    folder = await stage.start(
        shell(f"setsid {sys.executable} -c '{WAITS_FOR_A_PAGE}' & setsid sh -c '{TICKER}' & wait")
    )
    await stage.says(folder, b"waiter")
    if b"waiter may not" in stage.output(folder):
        pytest.skip("this user may not wait for a page that never comes (userfaultfd)")
    waiting = stage.pid_of(folder, int(stage.output(folder).split(b"waiter ")[1].split()[0]))
    await until(lambda: state_of(waiting) == "D", "the wait")
    frozen = await stage.runs.freeze(folder)
    assert waiting in frozen.stopped
    assert not frozen.survivors
    await assert_silent(stage, folder)
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")


async def test_freezing_and_thawing_are_idempotent(stage: Stage) -> None:
    folder = await stage.start(shell(TICKER))
    await stage.says(folder, b"3\n")
    first = await stage.runs.freeze(folder)
    assert set((await stage.runs.freeze(folder)).stopped) == set(first.stopped)
    await stage.runs.thaw(folder)
    await stage.runs.thaw(folder)
    status = stage.runs.status_of(folder)
    assert status is not None
    assert status.state is State.RUNNING


async def test_a_line_sent_to_a_frozen_agent_is_read_after_the_thaw(stage: Stage) -> None:
    folder = await stage.start(shell("echo up; read line; echo got $line"))
    await stage.says(folder, b"up")
    await stage.runs.freeze(folder)
    await stage.runs.send(folder, b"news")
    assert b"got" not in stage.output(folder)
    await stage.runs.thaw(folder)
    await stage.says(folder, b"got news")


async def test_an_agent_killed_while_frozen_has_an_exit(stage: Stage) -> None:
    folder = await stage.start(("sleep", "100"))
    frozen = await stage.runs.freeze(folder)
    os.kill(frozen.stopped[0], signal.SIGKILL)
    assert (await stage.exit_of(folder)).signal == 9


async def test_a_thaw_is_repeated_when_the_holder_froze_itself_before_its_answer_was_read(stage: Stage) -> None:
    folder = await stage.start(shell(TICKER), limits=replace(QUICK, orphan_after=0.5))
    await stage.says(folder, b"1\n")

    def block_until(condition: Callable[[], bool]) -> None:
        """Keep the daemon's loop from running, as a loaded machine does."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    block_until(lambda: stage.runs.froze_itself(folder))
    said = len(stage.output(folder))
    thawing = asyncio.create_task(stage.runs.thaw(folder))
    await asyncio.sleep(0)
    (stage.base / "data/alive").touch()
    block_until(lambda: not stage.runs.froze_itself(folder))
    block_until(lambda: stage.runs.froze_itself(folder))
    await thawing
    await until(lambda: len(stage.output(folder)) > said, "ticks after the thaw")


async def test_a_run_without_its_daemon_freezes_by_itself_and_thaws_on_its_return(stage: Stage) -> None:
    limits = Limits(orphan_after=1.5, floor_bytes=0)
    folder = await stage.start(shell(TICKER), limits=limits)
    await stage.runs.close()  # no daemon touches `alive` any more

    def is_orphaned() -> bool:
        status = stage.runs.status_of(folder)
        return status is not None and (status.state, status.request) == (State.FROZEN, "orphan")

    await until(is_orphaned, "the orphan's freeze")
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")


async def test_a_run_that_ended_cannot_be_frozen(stage: Stage) -> None:
    folder = await stage.start(("true",))
    await stage.exit_of(folder)
    await until(lambda: not stage.runs.is_alive(folder))
    with pytest.raises(RunGone, match="has ended"):
        await stage.runs.freeze(folder)


async def test_a_run_that_is_being_stopped_does_not_claim_to_be_frozen(stage: Stage) -> None:
    folder = await stage.start(shell(f"trap '' TERM; {TICKER}"), limits=replace(QUICK, term_grace=2.0))
    await stage.says(folder, b"3\n")
    await stage.runs.stop(folder)
    assert (await stage.runs.freeze(folder)).survivors
    assert (await stage.exit_of(folder)).signal == 9
