"""Admission of HTTP requests: who the peer of the socket is, what it may ask, and how large a request may be."""

import socket
import struct
from asyncio import Transport

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.daemon.callers import AccessControl, Caller
from orchestrator.server.problems import HttpProblem, RefusedRequest, answer

LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes: the largest ticket, with every character escaped."""
TOO_LARGE = HttpProblem(
    413,
    "too-large",
    "The request is too large",
    f"a request may hold {LARGEST_REQUEST} bytes; put long material into the repository",
)
OPEN_TO_ALL = frozenset({"/healthz", "/readyz"})
OPEN_TO_AGENTS = frozenset({("GET", "state/current"), ("POST", "state/step"), ("POST", "state/fail")})
"""What an agent may ask of its own task, under /api/tasks/<id>/."""

_CREDENTIALS = struct.Struct("3i")


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that knows its peer: the ASGI scope's client is (uid, pid)."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as the base class has it
        """Ask the kernel once, when the connection begins."""
        super().connection_made(transport)
        peer: socket.socket = transport.get_extra_info("socket")
        pid, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        self.client = (str(uid), pid)
        self.app_state = {**self.app_state, "abort": transport.abort}


class PeerAuthMiddleware:
    """Refuses callers that may not ask; names the others to the routes."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403, refuse a request that is too large with 413, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        uid, pid = scope["client"]
        caller = Caller(pid=pid, uid=int(uid))
        agent = self._agent(caller, scope)
        refusal = None if agent or scope["path"] in OPEN_TO_ALL else self._refusal_of(caller)
        if refusal is None and _announced_length(scope) > LARGEST_REQUEST:
            refusal = TOO_LARGE
        if refusal is not None:
            await answer(refusal)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = agent or caller
        await self._app(scope, _bounded(receive), send)

    def _agent(self, caller: Caller, scope: Scope) -> Caller | None:
        """The caller as an agent that asks what it may; None if it is none, or asks for anything else."""
        under, _, rest = scope["path"].partition("/api/tasks/")
        task_id, _, action = rest.partition("/")
        if under or (scope["method"], action) not in OPEN_TO_AGENTS:
            return None
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        return self._access.agent_with_token(caller, task_id, authorization.removeprefix("Bearer "))

    def _refusal_of(self, caller: Caller) -> HttpProblem | None:
        objection = self._access.objection_to(caller)
        return HttpProblem(403, "not-for-you", "The caller may not do this", objection) if objection else None


def caller_of(request: Request) -> Caller:
    """Return who asks."""
    caller: Caller = request.state.caller
    return caller


def _announced_length(scope: Scope) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _bounded(receive: Receive) -> Receive:
    """Refuse the request once it is longer than allowed, whatever length it announced."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_REQUEST:
            raise RefusedRequest(TOO_LARGE)
        return message

    return bounded
