"""The server on the Unix socket: private from its first moment, and never in place of another daemon."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private
from orchestrator.server.peer_auth import PeerProtocol

LONGEST_PATH = 107
"""Bytes: the longest path of a socket that the kernel accepts."""
BACKLOG = 128
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
        self, config: uvicorn.Config, listener: socket.socket, path: Path, end_streams: Callable[[], None]
    ) -> None:
        self._stopping, self._end_streams = asyncio.Event(), end_streams
        super().__init__(config)
        self._listener, self._path, self._inode = listener, path, path.stat().st_ino

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
        """Answer requests until `should_exit`; the socket is gone afterwards."""
        try:
            await super().serve([self._listener, *(sockets or ())])
        finally:
            self._listener.close()
            if self._path.exists() and self._path.stat().st_ino == self._inode:
                self._path.unlink()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield


def make_server(app: FastAPI, path: Path, end_streams: Callable[[], None]) -> ApiServer:
    """Return a server that holds the socket already; `serve()` answers requests. Raises SocketRefused."""
    listener = _listening(path)
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
    )
    return ApiServer(config, listener, path, end_streams)


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
