"""The server on its Unix sockets: private from their first moment, and never in place of another daemon.

On request it listens on a loopback address too, for browsers and for programs with a token.
"""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from orchestrator.daemon.callers import group_id
from orchestrator.errors import OrchestratorError
from orchestrator.formats.address import parse_listen
from orchestrator.formats.files import make_private
from orchestrator.server.peer_auth import PeerProtocol

LONGEST_PATH = 107
"""Bytes: the longest path of a socket that the kernel accepts."""
BACKLOG = 128
KEEP_ALIVE_SECONDS = 60
"""How long a connection may wait for its next request."""
SHUTDOWN_SECONDS = 5
"""How long requests in progress may take when the daemon stops."""


class SocketRefused(OrchestratorError):
    """The socket cannot be listened on."""


class ApiServer(uvicorn.Server):
    """uvicorn on a socket that is already bound; the daemon handles signals.

    It waits for an event to stop. uvicorn itself polls ten times a second, which took most of the processor time of an
    idle daemon, and formats a Date header each time. Streams never end by themselves, so `end_streams` ends them.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listeners: Sequence[socket.socket],
        end_streams: Callable[[], None],
        tcp: socket.socket | None,
    ) -> None:
        self._stopping, self._end_streams = asyncio.Event(), end_streams
        super().__init__(config)
        self._listeners = {Path(listener.getsockname()): listener for listener in listeners}
        self._tcp = [tcp] if tcp else []
        self._inodes = {path: path.stat().st_ino for path in self._listeners}

    @property
    def should_exit(self) -> bool:
        """Whether the server is to stop."""
        return self._stopping.is_set()

    @should_exit.setter
    def should_exit(self, is_stopping: bool) -> None:
        if is_stopping:
            self._stopping.set()
        else:
            self._stopping.clear()

    async def main_loop(self) -> None:
        """Wait until the server is to stop, then end the streams."""
        await self._stopping.wait()
        self._end_streams()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer requests until `should_exit`; the sockets are gone afterwards."""
        try:
            await super().serve([*self._listeners.values(), *self._tcp, *(sockets or ())])
        finally:
            for path, listener in self._listeners.items():
                listener.close()
                if path.exists() and path.stat().st_ino == self._inodes[path]:
                    path.unlink()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield


def make_server(
    app: FastAPI, paths: Sequence[Path], end_streams: Callable[[], None], *, listen: str = "", group: str = ""
) -> ApiServer:
    """Return a server that holds these sockets already; `serve()` answers requests. Raises SocketRefused.

    `listen` is a loopback address for TCP too; the app's state then has the address of its pages as `origin`.
    `group` names a group whose members may connect to the first socket.
    """
    with ExitStack() as opened:
        listeners = [opened.enter_context(_listening(path)) for path in paths]
        if group:
            _open_to(group, paths[0])
        tcp = opened.enter_context(_listening_on(listen)) if listen else None
        opened.pop_all()
    app.state.origin = f"http://{_host_and_port(tcp, app.state.allowed_hosts)}" if tcp else ""
    config = uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        access_log=False,
        log_config=None,
        log_level="warning",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    return ApiServer(config, listeners, end_streams, tcp)


def _listening_on(address: str) -> socket.socket:
    host, port = parse_listen(address)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        message = f"cannot listen on {address}: {error.strerror}; set `listen` to another port"
        raise SocketRefused(message) from error
    listener.setblocking(False)
    return listener


def _open_to(group: str, path: Path) -> None:
    """Let a group use a socket, and pass through its folder without seeing what is there."""
    gid = group_id(group)
    if gid is None:
        raise SocketRefused(f"there is no group {group!r}; set `socket_group` to one that exists, or to nothing")
    try:
        os.chown(path, -1, gid)
        path.chmod(0o660)
        if not path.parent.stat().st_mode & stat.S_IXOTH:
            os.chown(path.parent, -1, gid)
            path.parent.chmod(path.parent.stat().st_mode | stat.S_IXGRP)
    except OSError as error:
        message = f"cannot open {path} to the group {group}: {error.strerror}; the daemon's user must be in it"
        raise SocketRefused(message) from error


def _host_and_port(listener: socket.socket, names: Collection[str]) -> str:
    """Return what browsers call: a name of its own below `localhost` if one is set, else the address."""
    host, port, *_ = listener.getsockname()
    literal = f"[{host}]" if listener.family == socket.AF_INET6 else host
    return f"{next((name for name in names if name.endswith('.localhost')), literal)}:{port}"


def _listening(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketRefused(f"{path} is longer than {LONGEST_PATH} bytes; set `socket` to a shorter path")
    try:
        make_private(path.parent)
        _clear(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as error:
        message = f"cannot listen on {path}: {error.strerror}; set `socket` to another path"
        raise SocketRefused(message) from error
    listener.setblocking(False)
    return listener


def _clear(path: Path) -> None:
    """Remove the socket of a daemon that no longer runs."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(f"{path} exists and is not a socket; move it away, or set `socket` to another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        answer = probe.connect_ex(str(path))
    if answer == 0:
        raise SocketRefused(f"another daemon listens on {path}; stop it, or set `socket` to another path")
    if answer != errno.ECONNREFUSED:
        raise OSError(answer, os.strerror(answer), str(path))
    path.unlink()
