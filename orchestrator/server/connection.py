"""One program's connection to a daemon: whether it is there, answers, or hangs, in words that say what to do."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import httpx

from orchestrator import __version__
from orchestrator.formats.files import group_let_in, owned_by_another
from orchestrator.server.errors import DaemonUnreachable
from orchestrator.server.versions import VERSION

READ_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
"""Seconds."""
WRITE_TIMEOUT = httpx.Timeout(150.0, connect=5.0)
"""Seconds: a submission may wait for a slow tracker and inspect a large repository."""
ANSWER_WITHIN = 3.5
"""Seconds in which a daemon says that it is there; one that does not and does no work meanwhile hangs."""
ONCE_MORE = 0.5
"""Seconds in which an idle one says so after all: it may have been busy until just before it was watched."""
WATCHED = 0.3
"""Seconds that a silent daemon is watched for whether it works."""
LONGEST_WORK = 30.0
"""Seconds after which one that works, but does not say that it is there, is given up too."""
FRESH = 1.0
"""Seconds after an answer in which the daemon need not say again that it is there."""
STOPPED = frozenset("tT")

_CREDENTIALS = struct.Struct("3i")
KEPT_OPEN = 2.0
"""Seconds that a connection is used again: the daemon closes one after five, and a request just then would be lost."""


class _Process(NamedTuple):
    """What the system says of the daemon's process: its state as ps shows it, and the ticks that it has worked."""

    pid: int
    state: str
    ticks: int


class Connection:
    """HTTP over the Unix socket of a daemon; `http` is used within `reached` alone.

    With `within`, a daemon that is silent for so many seconds is given up, whatever it does.
    """

    def __init__(self, path: Path, token: str, within: float | None = None) -> None:
        self._path, self._answered_at, self._within = path, 0.0, within
        limits = httpx.Limits(keepalive_expiry=KEPT_OPEN)
        transport = httpx.HTTPTransport(uds=str(path), limits=limits)
        self.http = httpx.Client(transport=transport, base_url="http://orchestrator", timeout=READ_TIMEOUT)
        self.http.headers[VERSION] = __version__
        if token:
            self.http.headers["Authorization"] = f"Bearer {token}"

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Turn transport errors into DaemonUnreachable; a daemon that hangs is found before the request is sent."""
        if not _is_there(self._path):
            raise self._unreachable()
        try:
            self._wait_for_sign()
            yield
        except httpx.ConnectError as error:
            raise self._unreachable() from error
        except httpx.TimeoutException as error:
            raise self._silent(_process_behind(self._path)) from error
        except httpx.TransportError as error:
            raise DaemonUnreachable(
                f"the daemon on {self._path} closed the connection ({type(error).__name__}); look at its log"
            ) from error
        self._answered_at = time.monotonic()

    def _wait_for_sign(self) -> None:
        """Wait until the daemon says that it is there, as long as it does anything. Raises httpx.TimeoutException."""
        given_up_at, patience = time.monotonic() + LONGEST_WORK, self._within or ANSWER_WITHIN
        while time.monotonic() - self._answered_at > FRESH:
            try:
                self.http.get("/healthz", timeout=patience)
                self._answered_at = time.monotonic()
            except httpx.TimeoutException:
                if self._within or time.monotonic() > given_up_at:
                    raise
                is_working = _is_working(self._path)
                if not is_working and patience == ONCE_MORE:
                    raise
                patience = ANSWER_WITHIN if is_working else ONCE_MORE

    def _silent(self, process: _Process | None) -> DaemonUnreachable:
        told = f"the daemon on {self._path} does not answer"
        if process is None:
            return DaemonUnreachable(f"{told}; look at its log")
        if process.state in STOPPED:
            return DaemonUnreachable(f"{told}: it is stopped; let it go on with: kill -CONT {process.pid}")
        return DaemonUnreachable(
            f"{told}, though its process {process.pid} is there; look at its log, and restart it if it stays so: "
            "agents outlive that"
        )

    def _unreachable(self) -> DaemonUnreachable:
        owner = None if os.geteuid() == 0 else owned_by_another(self._path)
        if owner is not None:
            group = group_let_in(self._path)
            users = f"and members of the group {group} may use it" if group else "who alone may use it"
            join = f", or become a member and log in again: sudo usermod -aG {group} $USER" if group else ""
            return DaemonUnreachable(
                f"{self._path} belongs to {owner}, {users}; try again as that user:"
                f" sudo -u {quote(owner)} orchestrator …{join}"
            )
        return DaemonUnreachable(
            f"no daemon answers on {self._path}; start it with `orchestrator serve`, "
            "or give its address with --socket or --data-dir"
        )


def _is_there(path: Path) -> bool:
    """Return whether to try: httpcore leaves a descriptor open for each connection that fails."""
    try:
        return path.is_socket()
    except OSError:
        return False


def _is_working(path: Path) -> bool:
    """Return whether the process that listens on a socket uses the processor."""
    before = _process_behind(path)
    time.sleep(WATCHED)
    now = _process_behind(path)
    return before is not None and now is not None and now.ticks > before.ticks


def _process_behind(path: Path) -> _Process | None:
    """Return the process that listens on a socket, if it and what the system says of it can be found."""
    with suppress(OSError, ValueError, IndexError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(WATCHED)
        probe.connect(str(path))
        pid, *_ = _CREDENTIALS.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return _Process(pid, fields[0], int(fields[11]) + int(fields[12]))
    return None
