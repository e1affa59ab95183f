"""An event loop whose time jumps to the next thing to do, and the daemon's processes in it.

What a process does in threads, mostly with files, is done at once in the loop, after a moment of virtual time and
before another one: so a process that is killed may have written a file and not know it. A killed process writes nothing
more: its coroutines end at their next step as if they were never continued.
"""

import asyncio
import contextvars
import selectors
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

PRECISION = 1e-6
"""Seconds by which a timer may be early; after half a year a float no longer holds asyncio's own nanosecond."""
LONGEST_MOMENT = 0.002
"""Seconds that one access to the disk takes at most, before it happens and after."""


class Process:
    """One daemon process: what it started, until it is killed."""

    def __init__(self) -> None:
        self.killed_at: datetime | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.faults: list[BaseException] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the process do something."""
        inside = contextvars.copy_context()
        inside.run(PROCESS.set, self)
        self.add(asyncio.get_running_loop().create_task(work, context=inside))

    @property
    def is_killed(self) -> bool:
        """Whether it was killed."""
        return self.killed_at is not None

    def kill(self, at: datetime) -> None:
        """End it as kill -9 does."""
        self.killed_at = at
        for task in self.tasks:
            task.cancel()

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Take note of a task of the process."""
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.is_killed:
            self.faults.append(error)


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing: it lets the loop's time jump instead."""

    jump: Callable[[float], None]
    threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.threads:
            return super().select(None if timeout is None or timeout > 0 else timeout)
        if timeout is None:
            raise RuntimeError("nothing will ever happen again")
        if timeout > 0:
            self.jump(timeout)
        return []  # only threads would be heard of


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time begins at `start`; `on_jump` is called with each new time."""

    def __init__(self, start: datetime, on_jump: Callable[[datetime], None], rng: Random) -> None:
        self._selector_of_ours = _JumpingSelector()
        self._selector_of_ours.jump = self._jump
        self._elapsed, self._start, self._on_jump, self._rng = 0.0, start, on_jump, rng
        super().__init__(self._selector_of_ours)
        self._clock_resolution = PRECISION
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Return the seconds since the start."""
        return self._elapsed

    @contextmanager
    def waiting_for_threads(self) -> Iterator[None]:
        """Let no time pass while something is done in real threads."""
        self._selector_of_ours.threads += 1
        try:
            yield
        finally:
            self._selector_of_ours.threads -= 1

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Do something in the loop, a moment later."""
        process, done = PROCESS.get(), self.create_future()
        if process is not None and process.is_killed:
            raise asyncio.CancelledError

        def work() -> None:
            if process is not None and process.is_killed:
                done.cancel()
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - it is raised where it is awaited
                self.call_later(self._moment(), _settle, done, None, error)
            else:
                self.call_later(self._moment(), _settle, done, result, None)

        self.call_later(self._moment(), work)
        return done

    def _moment(self) -> float:
        return 0.0 if self._selector_of_ours.threads else self._rng.uniform(0.0, LONGEST_MOMENT)

    def _jump(self, seconds: float) -> None:
        self._elapsed += seconds
        self._on_jump(self._start + timedelta(seconds=self._elapsed))


def _settle(done: "asyncio.Future[Any]", result: object, error: Exception | None) -> None:
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)


def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> "asyncio.Task[Any]":
    inside = more.get("context")
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
    process = inside.get(PROCESS) if inside is not None else PROCESS.get()
    if process is not None:
        process.add(task)
        if process.is_killed:
            task.cancel()
    return task
