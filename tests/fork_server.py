"""Start `orchestrator` without importing it anew: one process has imported it already and forks for every command.

Importing takes up to a second of processor time, and the suite starts the program several hundred times. Each command
still is a process of its own with its own files, folder and environment, and runs `main` from beginning to end. What
depends on the interpreter's own start, such as which modules a command imports, needs a test that starts one.
"""

import atexit
import functools
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Mapping
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
REQUEST_SIZE = 1 << 17
"""Bytes of a request: arguments, folder and environment."""
READY = b"ready"
"""What the server says once it has imported the program; no command's time runs before that."""
FDS = 4
"""Sent with a request: the three standard streams, and where the pid and the exit code are written to."""


class Request(NamedTuple):
    """A command to run."""

    arguments: list[str]
    cwd: str
    env: dict[str, str]


class ForkedProcess:
    """A started command, with those methods of `subprocess.Popen` that tests need."""

    def __init__(self, news: socket.socket) -> None:
        self._news = news
        self.pid = int(self._next_word())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, the negative number of a signal, or None while it runs."""
        if self.returncode is None and self._has_news(0):
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code; raises subprocess.TimeoutExpired."""
        if self.returncode is None and not self._has_news(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return self._end()

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _has_news(self, timeout: float | None) -> bool:
        ready, _, _ = select.select([self._news], [], [], timeout)
        return bool(ready)

    def _end(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._next_word())
            self._news.close()
        return self.returncode

    def _next_word(self) -> str:
        word = self._news.recv(64).decode()
        assert word, "the fork server ended"
        return word


def start(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
) -> ForkedProcess:
    """Start `orchestrator` with these arguments; the streams are open files or `subprocess.DEVNULL`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        request = json.dumps(Request(list(arguments), str(cwd), dict(env))).encode()
        with _STARTING:
            server = _server()
        socket.send_fds(server, [request], [*(_fd(file, null) for file in (stdin, stdout, stderr)), theirs.fileno()])
    finally:
        theirs.close()
        os.close(null)
    return ForkedProcess(ours)


def run(
    *arguments: str, cwd: Path, env: Mapping[str, str], stdin: str | bytes = b"", timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run `orchestrator` to its end, after at most `timeout` seconds; raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode() if isinstance(stdin, str) else stdin)
        given.seek(0)
        process = start(*arguments, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read().decode(), err.read().decode())


def _fd(file: int | IO[bytes], null: int) -> int:
    if isinstance(file, int):
        return null if file == subprocess.DEVNULL else file
    return file.fileno()


_STARTING = threading.Lock()


@functools.cache
def _server() -> socket.socket:
    """The way to this process's server, which ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
    server = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(_close, ours, server)
    assert ours.recv(64) == READY, "the fork server did not start"
    return ours


def _close(requests: socket.socket, server: "subprocess.Popen[bytes]") -> None:
    requests.close()
    server.wait()


def _serve(requests: socket.socket) -> Request | None:
    """Fork for every request: return the request in the new process, and None when there will be no more."""
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watchers: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ends(watchers)
        if requests in ready:
            content, fds, _, _ = socket.recv_fds(requests, REQUEST_SIZE, FDS)
            if not content:
                return None
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for opened in (requests, woken, wake, *watchers.values()):
                    opened.close()
                for number, fd in enumerate(fds[:3]):
                    os.dup2(fd, number)
                for fd in fds:
                    os.close(fd)
                return Request(*json.loads(content))
            for fd in fds[:3]:
                os.close(fd)
            watchers[pid] = socket.socket(fileno=fds[3])
            watchers[pid].send(str(pid).encode())


def _report_ends(watchers: dict[int, socket.socket]) -> None:
    """Reap every child that has ended and tell its exit code."""
    while watchers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with watchers.pop(pid) as watcher:
            try:
                watcher.send(str(os.waitstatus_to_exitcode(status)).encode())
            except BrokenPipeError:
                continue  # nobody waits for it any more


def _prepare(request: Request) -> None:
    """Set up what an interpreter that was started at a terminal for this command would have."""
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    if request.env.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.argv = ["orchestrator", *request.arguments]
    sys.stdin = _stream(0, "r")
    sys.stdout = _stream(1, "w")
    sys.stderr = errors = _stream(2, "w")
    errors.reconfigure(line_buffering=True, errors="backslashreplace")


def _stream(fd: int, mode: str) -> TextIOWrapper:
    opened = open(fd, mode, encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
    assert isinstance(opened, TextIOWrapper)
    return opened


def _main() -> None:
    program = import_module("orchestrator.cli.app").main
    for package in ("orchestrator.cli.commands", "orchestrator.cli.demo"):
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        requests.send(READY)
        request = _serve(requests)
    if request is not None:
        _prepare(request)
        program()


if __name__ == "__main__":
    _main()
