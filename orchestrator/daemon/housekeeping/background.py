"""One thread for work on many files, at the lowest priority of processor and disk: nothing else waits for it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

import psutil

from orchestrator.errors import OrchestratorError

P = ParamSpec("P")
T = TypeVar("T")

NICENESS = 19
PAUSE = 0.002
"""Seconds of rest between two slices of work, in which every other thread gets its turn."""


class Stopped(OrchestratorError):
    """Work on files was given up because the daemon stops; what was begun goes on after the next start."""


class Background:
    """The thread; used from one event loop."""

    def __init__(self) -> None:
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1, "housekeeping", initializer=_be_last)

    async def run(self, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Return what a function returns that blocks; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **more))

    async def spread(self, slices: Iterator[None]) -> None:
        """Do work that yields now and then; a request to the same thread gets in between."""
        while await self.run(self._step, slices):
            pass

    def rest(self) -> None:
        """Let every other thread have its turn. Raises Stopped once the daemon stops."""
        if self._ending.wait(PAUSE):
            raise Stopped("the daemon stops")

    def close(self) -> None:
        """Begin nothing more, and end what rests now and then."""
        self._ending.set()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _step(self, slices: Iterator[None]) -> bool:
        """Do one slice of work and rest; return whether there may be more."""
        for _ in slices:
            self.rest()
            return True
        return False


def _be_last() -> None:
    """Give this thread, which Linux schedules like a process, the lowest priorities; a kernel may refuse."""
    thread = threading.get_native_id()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
    with suppress(OSError, psutil.Error):
        psutil.Process(thread).ionice(psutil.IOPRIO_CLASS_IDLE)
