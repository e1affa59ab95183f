"""The server on the Unix socket: private from its first moment, and never in another daemon's place."""

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
"""Bytes that the kernel takes for the path of a socket."""
BACKLOG = 128
LAST_ANSWERS = 5
"""Seconds that requests under way have when the daemon ends."""


class SocketRefused(OrchestratorError):
    """The socket cannot be listened on."""


class Server(uvicorn.Server):
    """uvicorn on a socket of ours; signals are the daemon's business.

    It waits for the word to end. uvicorn itself looks for it ten times a second, which took most of what an idle daemon
    uses, and writes the time of day into a header then, which nobody reads on a socket of one's own machine.
    Streams, which would never end by themselves, are told to by `end_streams`.
    """

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, path: Path, end_streams: Callable[[], None]
    ) -> None:
        self._over, self._end_streams = asyncio.Event(), end_streams
        super().__init__(config)
        self._listener, self._path, self._inode = listener, path, path.stat().st_ino

    @property
    def should_exit(self) -> bool:
        """Whether the word to end was given."""
        return self._over.is_set()

    @should_exit.setter
    def should_exit(self, is_over: bool) -> None:
        if is_over:
            self._over.set()
        else:
            self._over.clear()

    async def main_loop(self) -> None:
        """Wait for the word to end, and hand it on to the streams."""
        await self._over.wait()
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
        """Leave them alone."""
        yield


def make_server(app: FastAPI, path: Path, end_streams: Callable[[], None]) -> Server:
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
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    return Server(config, listener, path, end_streams)


def _listening(path: Path) -> socket.socket:
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketRefused(f"{path} is longer than {LONGEST_PATH} bytes; give the setting `socket` a shorter path")
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
        said = f"cannot listen on {path}: {error.strerror}; give the setting `socket` another path"
        raise SocketRefused(said) from error
    listener.setblocking(False)
    return listener


def _clear(path: Path) -> None:
    """Take away the socket of a daemon that is no more."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(f"{path} is there and is no socket; move it away, or change the setting `socket`")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        answer = probe.connect_ex(str(path))
    if answer == 0:
        raise SocketRefused(f"another daemon listens on {path}; stop that one, or change the setting `socket`")
    if answer != errno.ECONNREFUSED:
        raise OSError(answer, os.strerror(answer), str(path))
    path.unlink()
