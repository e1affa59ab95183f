"""The daemon's side of the holders: start, adopt, send, freeze, thaw, stop.

Everything that matters is in the run's folder: a held lock means that the run goes on, an exit file says how it ended,
and neither means that its holder was killed. So a new daemon adopts its runs by reading their folders, and every call
here may be repeated. The doorbell makes the daemon react quickly; a look at every folder each second makes it reliable.

A folder is given as an absolute path.
"""

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import structlog

import orchestrator
from orchestrator.formats.signing import signing_key
from orchestrator.processes import files
from orchestrator.processes.doorbell import Doorbell, make_fifo
from orchestrator.processes.process_stats import cgroup_of, has_processes, kill_run, remove_abandoned_groups, usage_of
from orchestrator.processes.run_state import (
    appearance_of,
    exit_of,
    has_begun,
    is_alive,
    is_spawned,
    status_of,
    take_lock,
)
from orchestrator.processes.spec import (
    BOOT,
    Exit,
    Frozen,
    HolderFailed,
    HolderSilent,
    InputClosed,
    Limits,
    RunGone,
    RunSpec,
    State,
    Status,
    Usage,
)
from orchestrator.processes.stdin import append_line

log = structlog.get_logger()

SWEEP_EVERY = 1.0  # seconds
ANSWER_LIMIT = 10.0  # seconds; a freeze takes two at most
LOOK_AGAIN = 0.1  # seconds between looks while an answer is awaited and no bell rings
REPEAT_AFTER = 1.0  # seconds until a request is repeated whose answer a freeze of the holder's own may have replaced
FREE_DESCRIPTORS = 10  # above the descriptors that a holder gets
PYTHON = (sys.executable, "-I", "-S", "-c")
FOR_HOLDERS = frozenset({"LANG", "LD_LIBRARY_PATH"})
SOURCES = Path(orchestrator.__file__).parent.parent


@dataclass(slots=True)
class _Watched:
    """A watched run: what its files looked like, and who waits for it."""

    run: str
    seen: tuple[object, ...] = ()
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    requests: asyncio.Lock = field(default_factory=asyncio.Lock)


class Runs:
    """All runs of one daemon; used from one event loop."""

    def __init__(self, *, data_dir: Path) -> None:
        """Creates the doorbell and the `alive` file, nothing else."""
        self._data_dir = data_dir.absolute()
        self._doorbell = Doorbell(self._data_dir)
        self._watched: dict[Path, _Watched] = {}
        self._labels: dict[str, Path] = {}
        self._on_change: Callable[[Path], None] | None = None
        self._on_output: Callable[[Path], None] | None = None
        self._sweep: asyncio.Task[None] | None = None
        self._children: set[int] = set()
        self._stopping: dict[Path, asyncio.TimerHandle] = {}

    def watch(self, on_change: Callable[[Path], None], on_output: Callable[[Path], None] | None = None) -> None:
        """Call `on_change(folder)` whenever a started or adopted run's files may have changed, until its end.

        If only its output has grown, `on_output(folder)` is called instead, if it is given.
        """
        self._on_change, self._on_output = on_change, on_output or on_change
        remove_abandoned_groups()
        self._listen()

    def adopt(self, folder: Path) -> None:
        """Watch a run that an earlier daemon started; a run without a readable spec.json never began."""
        try:
            spec: files.Spec = files.decode(files.read(str(folder / files.SPEC)))  # type: ignore[assignment]  # ours
            self._follow(folder, spec["run"])
        except (OSError, ValueError, KeyError, TypeError):
            return

    async def start(self, folder: Path, spec: RunSpec) -> None:
        """Start a holder for this run; do nothing if the run began before, whether it goes on, ended or was lost.

        Raises HolderFailed, or OSError from the folder. An agent that cannot be spawned is not an error here but an
        exit.
        """
        self._listen()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # noqa: ASYNC240  (one entry, as quick as a thread)
        watched = self._follow(folder, spec.run)
        if has_begun(folder):
            return
        lock = take_lock(folder)
        if lock is None:
            return
        try:
            if has_begun(folder):  # by another daemon, a moment ago
                return
            record = spec.record(folder, self._doorbell.path, self._doorbell.alive)
            files.replace(str(folder / files.SPEC), files.encode(record))
            make_fifo(folder / files.CONTROL)
            holder = _spawn_holder(folder, lock, files.encode(spec.handover(self._exit_key(folder))))
        finally:
            os.close(lock)
        self._children.add(holder)
        await self._until(folder, watched, "start", lambda: is_spawned(folder) or self._died(folder, holder))

    def is_alive(self, folder: Path) -> bool:
        """Return whether a holder serves this run."""
        return is_alive(folder)

    def exit_of(self, folder: Path, holder: str = "") -> Exit | None:
        """Return how a run ended; None while it runs or has not begun.

        If the run's holder was killed, or the run's folder is gone, kill what is left of it. `holder` is what
        `holder_of` returned when it began: with it, the run is known to have begun.
        """
        return exit_of(folder, self._exit_key(folder), holder)

    def status_of(self, folder: Path) -> Status | None:
        """Return what the holder last reported; None before its first report."""
        return status_of(folder)

    def froze_itself(self, folder: Path) -> bool:
        """Return whether a run is frozen because its daemon was away, and not because anybody asked for it."""
        status = status_of(folder)
        return status is not None and status.state is State.FROZEN and status.request == files.BY_ORPHAN

    def usage(self, folder: Path) -> Usage:
        """Return processor time and memory of the run's whole tree, including its holder."""
        return usage_of(folder)

    async def send(self, folder: Path, line: bytes) -> None:
        """Hand one line to the agent, durably; a line whose `uuid` was sent before is not sent again.

        Raises InputClosed.
        """
        async with self._watch_of(folder).requests:
            if not await asyncio.to_thread(append_line, folder / files.STDIN, line):
                raise InputClosed(folder)
            self._request(folder, "input")

    async def close_input(self, folder: Path) -> None:
        """Close the agent's input after every line sent so far."""
        async with self._watch_of(folder).requests:
            await asyncio.to_thread(append_line, folder / files.STDIN, files.END_OF_INPUT)
            self._request(folder, "input")

    async def freeze(self, folder: Path) -> Frozen:
        """Stop the run's whole tree in place. Raises RunGone, HolderSilent."""
        status = await self._ask(folder, "freeze")
        return Frozen(stopped=status.stopped, survivors=status.survivors, cgroup=cgroup_of(folder).path)

    async def thaw(self, folder: Path) -> None:
        """Let a frozen tree continue. Raises RunGone, HolderSilent."""
        await self._ask(folder, "thaw")

    async def stop(self, folder: Path, holder: str = "", longest: float = Limits().longest_stop) -> None:
        """Begin to stop a run: end of input, TERM, KILL, each after its grace period; its exit tells when it is over.

        After `longest` seconds everything that is left of it is killed, whatever its holder does. `holder` is what
        `holder_of` returned when the run began.
        """
        self._listen()
        if folder not in self._stopping:
            loop = asyncio.get_running_loop()
            self._stopping[folder] = loop.call_later(longest, self._end_unheld, folder, holder)
        self._request(folder, "stop")

    async def close(self) -> None:
        """Stop watching; every run goes on."""
        if self._sweep is not None:
            self._sweep.cancel()
            await asyncio.gather(self._sweep, return_exceptions=True)
            self._sweep = None
        for timer in self._stopping.values():
            timer.cancel()
        self._doorbell.close()
        self._reap()

    def _exit_key(self, folder: Path) -> str:
        """Return the key of this run alone; it is the same after the data folder was moved."""
        return signing_key(self._data_dir, f"exit of {os.path.relpath(folder, self._data_dir)}").hex()

    def _end_unheld(self, folder: Path, holder: str) -> None:
        """Kill every process of a run that its holder does not end: it may be stopped, or not hear of requests."""
        del self._stopping[folder]
        if has_processes(folder, holder):
            log.warning("processes_killed", run=str(folder), pids=kill_run(folder, holder))
            if folder in self._watched:
                self._changed(folder)

    def _listen(self) -> None:
        self._doorbell.listen(self._rung)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().create_task(self._look_each_second())

    def _follow(self, folder: Path, run: str) -> _Watched:
        self._labels[run] = folder
        return self._watched.setdefault(folder, _Watched(run))

    def _watch_of(self, folder: Path) -> _Watched:
        if folder not in self._watched:
            self.adopt(folder)
        return self._watched.get(folder) or _Watched("")

    def _rung(self, label: str) -> None:
        folder = self._labels.get(label.removeprefix(files.SAID))
        if folder and not label.startswith(files.SAID):
            self._changed(folder)
        elif folder and self._on_output:
            self._on_output(folder)

    def _changed(self, folder: Path) -> None:
        self._watched[folder].bell.set()
        if self._on_change:
            self._on_change(folder)

    async def _look_each_second(self) -> None:
        while True:
            try:
                self._look_at_all()
            except OSError as error:  # short of descriptors, say: the next look sees what this one missed
                log.warning("runs_not_looked_at", error=str(error))
            await asyncio.sleep(SWEEP_EVERY)

    def _look_at_all(self) -> None:
        self._doorbell.touch()
        self._reap()
        for folder, watched in list(self._watched.items()):
            seen = appearance_of(folder), is_alive(folder)
            if seen != watched.seen:
                watched.seen = seen
                asyncio.get_running_loop().call_soon(self._changed, folder)
            elif not seen[1]:
                self._forget(folder, watched)

    def _forget(self, folder: Path, watched: _Watched) -> None:
        if not watched.requests.locked() and has_begun(folder):
            del self._watched[folder]
            if self._labels.get(watched.run) == folder:
                del self._labels[watched.run]

    def _reap(self) -> None:
        for pid in list(self._children):
            if os.waitpid(pid, os.WNOHANG)[0]:
                self._children.discard(pid)

    async def _ask(self, folder: Path, verb: str) -> Status:
        self._listen()
        watched = self._watch_of(folder)
        async with watched.requests:
            request = self._request(folder, verb)
            if request is None:
                raise RunGone(folder, verb)
            answers: list[Status] = []
            repeat_at = time.monotonic() + REPEAT_AFTER

            def is_answered() -> bool:
                nonlocal repeat_at
                status = status_of(folder)
                if status is not None and status.request == request:
                    answers.append(status)
                elif not is_alive(folder):
                    raise RunGone(folder, verb)
                elif status is not None and status.request == files.BY_ORPHAN and time.monotonic() > repeat_at:
                    self._request(folder, verb, request)
                    repeat_at = time.monotonic() + REPEAT_AFTER
                return bool(answers)

            await self._until(folder, watched, verb, is_answered)
            return answers[0]

    async def _until(self, folder: Path, watched: _Watched, request: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + ANSWER_LIMIT
        while True:
            watched.bell.clear()
            if is_done():
                return
            if time.monotonic() > deadline:
                raise HolderSilent(folder, request)
            timer = asyncio.get_running_loop().call_later(LOOK_AGAIN, watched.bell.set)
            await watched.bell.wait()
            timer.cancel()

    def _request(self, folder: Path, verb: str, request: str = "") -> str | None:
        """Write a request for the holder, or repeat one; return its id, or None if no holder is there to read it."""
        request = request or token_hex(8)
        try:
            control = os.open(folder / files.CONTROL, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # ENXIO: nobody reads it any more
            return None
        try:
            os.write(control, f"{request} {verb}\n".encode())
        except BrokenPipeError:  # it ended just now
            return None
        except BlockingIOError:
            raise HolderSilent(folder, verb) from None
        finally:
            os.close(control)
        return request

    def _died(self, folder: Path, holder: int) -> bool:
        pid, wait_status = os.waitpid(holder, os.WNOHANG)
        if pid == 0:
            return False
        self._children.discard(holder)
        if has_begun(folder):
            return True
        raise HolderFailed(folder, os.waitstatus_to_exitcode(wait_status))


def _holder_environment() -> dict[str, str]:
    """Return what the interpreter itself needs: other processes of this user can read it, and no token is in it."""
    return {name: value for name, value in os.environ.items() if name in FOR_HOLDERS or name.startswith("LC_")}


def _spawn_holder(folder: Path, lock: int, handover: str) -> int:
    """Return the pid of a new holder, which shares the lock; no descriptor lies where another is to be."""
    control = os.open(folder / files.CONTROL, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    log = os.open(folder / "".join(files.STDERR), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    memory = os.memfd_create("handover")
    sources = (log, lock, control, memory)
    given = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FREE_DESCRIPTORS) for descriptor in sources]
    nothing = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1)]
    targets = (2, files.LOCK_FD, files.CONTROL_FD, files.HANDOVER_FD)
    inherited = [(os.POSIX_SPAWN_DUP2, old, new) for old, new in zip(given, targets, strict=True)]
    try:
        files.write_all(memory, handover)
        argv = (*PYTHON, BOOT, str(SOURCES), str(folder))
        return os.posix_spawn(argv[0], argv, _holder_environment(), file_actions=[*nothing, *inherited], setsid=True)
    finally:
        for descriptor in (control, log, memory, *given):
            os.close(descriptor)
