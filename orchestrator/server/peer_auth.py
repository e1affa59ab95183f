"""Connections that know their peer and end when they are slow, and who asks by a request that came over one."""

import os
import pwd
import socket
import struct
from array import array
from asyncio import TimerHandle, Transport
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import h11
from fastapi import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.daemon.callers import Caller
from orchestrator.server.access.requests import is_admitted

_CREDENTIALS = struct.Struct("3i")
_NO_LINGER = struct.pack("2i", 1, 0)
SO_PEERGROUPS = 59
"""socket(7) has it, the module socket not yet."""
MOST_GROUPS = 256
"""As many as the module socket has room for; whoever is in more is looked up in the database of users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long a connection may take for what, in seconds, and how many there may be at one address."""

    head: float = 10.0
    """From the first byte of a request, or from the beginning of the connection, to the end of the headers."""
    body: float = 60.0
    reading: float = 60.0
    """How long a peer over TCP may take nothing of an answer that waits for it."""
    connections: int = 512
    tcp_connections: int = 200


class _Phase(Enum):
    """What a connection waits for while its time runs."""

    HEAD = "head"
    BODY = "body"


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that knows its peer: `peer` of the request's state is its process, or None for one over TCP."""

    bounds: ClassVar[Bounds] = Bounds()
    _is_fresh: bool = True
    _phase: _Phase | None = None
    _timer: TimerHandle | None = None
    _stalled: TimerHandle | None = None
    door: object = None
    """The address that the peer connected to."""
    begun: float = 0.0
    """When the connection was made, in seconds of the event loop."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as the base class has it
        """Ask the kernel once, when the connection begins; if there are too many, one must give way."""
        super().connection_made(transport)
        connected: socket.socket = transport.get_extra_info("socket")
        self.door = connected.getsockname()
        self.app_state = {**self.app_state, "abort": self.abort, "peer": None}
        if connected.family == socket.AF_UNIX:
            peer = self.app_state["peer"] = _peer(connected)
            self.client = (str(peer.uid), peer.pid)
        self.begun = self.loop.time()
        self._make_room()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every clock."""
        super().connection_lost(exc)
        self._wait_for(None)
        self._stop_stalled()

    def data_received(self, data: bytes) -> None:
        """Take what came, and see what the connection waits for now."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on with the next request, which may have begun."""
        super().on_response_complete()
        self._watch()

    def _should_upgrade(self) -> bool:
        """Answer as if no other protocol had been offered, and without a warning: any caller could fill the log."""
        return False

    def pause_writing(self) -> None:
        """Wait for a peer that takes nothing, but not for ever."""
        super().pause_writing()
        if self.app_state["peer"] is None:
            self._stalled = self.loop.call_later(self.bounds.reading, self.abort)

    def resume_writing(self) -> None:
        """Go on: the peer takes something."""
        super().resume_writing()
        self._stop_stalled()

    def abort(self) -> None:
        """Cut the connection off at once: over TCP the kernel would go on offering what the peer does not take."""
        connected: socket.socket = self.transport.get_extra_info("socket")
        if connected.family != socket.AF_UNIX and not self.transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _make_room(self) -> None:
        """Keep within the bound: over TCP the oldest connection that showed nothing valid ends, else this new one."""
        is_tcp = self.app_state["peer"] is None
        peers = (one for one in self.connections if isinstance(one, PeerProtocol) and one is not self)
        others = [one for one in peers if one.door == self.door]
        if len(others) < (self.bounds.tcp_connections if is_tcp else self.bounds.connections):
            return
        strangers = [one for one in others if is_tcp and (one.cycle is None or not is_admitted(dict(one.cycle.scope)))]
        if strangers:
            oldest = min(strangers, key=lambda one: one.begun)
            self.connections.discard(oldest)  # it is gone a moment later, and must not be chosen twice
            oldest.abort()
        else:
            self._refuse(503, "there are too many connections; close one, or try again later")

    def _stop_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self) -> None:
        """Let the time run of what the connection waits for."""
        client = self.conn.their_state
        self._is_fresh = self._is_fresh and client is h11.IDLE
        if self.transport.is_closing():
            self._wait_for(None)
        elif client is h11.SEND_BODY:
            self._wait_for(_Phase.BODY)
        elif client is h11.IDLE and (self._is_fresh or self.conn.trailing_data[0]):
            self._wait_for(_Phase.HEAD)
        else:
            self._wait_for(None)  # an answer is under way, or uvicorn waits for the next request

    def _wait_for(self, phase: _Phase | None) -> None:
        if phase is self._phase:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._phase, self._timer = phase, None
        if phase is not None:
            seconds = self.bounds.head if phase is _Phase.HEAD else self.bounds.body
            self._timer = self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        """End a connection whose request does not come to its end."""
        self._timer, is_body = None, self._phase is _Phase.BODY
        if is_body and self.cycle.response_started:
            self.abort()
            return
        if is_body:
            self.cycle.disconnected = True  # its route hears that the caller has gone
            self.cycle.message_event.set()
        if is_body or self.conn.trailing_data[0]:
            self._refuse(408, "the request took too long")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what no route will, and close the connection."""
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=reason.encode()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()


def _peer(connected: socket.socket) -> Caller:
    """Return the process at the other end, with all its groups, as they were when it connected."""
    size = _CREDENTIALS.size
    pid, uid, gid = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return Caller(pid=pid, uid=uid, groups=frozenset({gid, *_groups(connected, uid, gid)}))


def _groups(connected: socket.socket, uid: int, gid: int) -> Collection[int]:
    found = array("I")
    try:
        found.frombytes(connected.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MOST_GROUPS * found.itemsize))
    except OSError:
        with suppress(KeyError):
            return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    return found


def caller_of(request: Request) -> Caller:
    """Return who asks."""
    caller: Caller = request.state.caller
    return caller
