"""Who is calling: the kernel says so, and no agent may (architecture.md, law 5).

A Unix socket tells the pid and uid of its peer as they were when it connected. A caller whose uid is neither ours nor
root's is refused. So is one that descends from a holder of this data folder: an agent's process carries the marker of
its run in its environment, and a holder names the run's folder on its command line. Every ancestor is asked for both,
since a process may clear its own environment but not its parents'. A caller that is gone before it could be looked at
is nobody, and refused as well.

One door is open to an agent: it may ask for the state of its own task, and tell of its steps and failures, if it shows
the word that its attempt was given (tokens.py).
"""

import os
import pwd
import re
import socket
import struct
from asyncio import Transport
from dataclasses import dataclass, replace
from pathlib import Path

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.processes.cgroup import PREFIX
from orchestrator.processes.runs import BOOT
from orchestrator.processes.spec import MARKER
from orchestrator.server.problems import Problem, Refusal, answer
from orchestrator.storage import tokens
from orchestrator.storage.task_files import TaskFiles

LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes: the largest ticket, with every character escaped."""
TOO_LARGE = Problem(
    413,
    "too-large",
    "The request is too large",
    f"a request may hold {LARGEST_REQUEST} bytes; put long material into the repository",
)
OPEN_TO_ALL = frozenset({"/healthz", "/readyz"})
OPEN_TO_AGENTS = (("GET", "state/current"), ("POST", "state/step"), ("POST", "state/fail"))
"""What an agent may ask of its own task."""

_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A process that asks something of the daemon; `attempt` is an agent's, which may little."""

    pid: int
    uid: int
    attempt: int | None = None

    def __str__(self) -> str:
        try:
            name = pwd.getpwuid(self.uid).pw_name
        except KeyError:
            name = "unknown"
        return f"{name} uid:{self.uid} pid:{self.pid}" + (f" agent:{self.attempt}" if self.attempt else "")


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that knows its peer: the ASGI scope's client is (uid, pid)."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as the base class has it
        """Ask the kernel once, when the connection begins."""
        super().connection_made(transport)
        peer: socket.socket = transport.get_extra_info("socket")
        pid, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        self.client = (str(uid), pid)


_OF_AN_AGENT = re.compile(rf"/{re.escape(PREFIX)}[0-9]+-[0-9]+(?=/| |$)", re.MULTILINE)
"""The name that a holder gives the control group of its agent."""


class PeerAuthMiddleware:
    """Lets in whoever may come in, and says who it is."""

    def __init__(self, app: ASGIApp, files: TaskFiles) -> None:
        self._app, self._files = app, files

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse with 403, or with 413 what is too large, or hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        uid, pid = scope["client"]
        caller = Caller(pid=pid, uid=int(uid))
        agent = None if scope["path"] in OPEN_TO_ALL else self._agent(caller, scope)
        refusal = None if agent or scope["path"] in OPEN_TO_ALL else self._objection_to(caller)
        if refusal is None and _announced_length(scope) > LARGEST_REQUEST:
            refusal = TOO_LARGE
        if refusal is not None:
            await answer(refusal)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = agent or caller
        await self._app(scope, _bounded(receive), send)

    def _agent(self, caller: Caller, scope: Scope) -> Caller | None:
        """The caller as an agent that asks what it may; None if it is none, or asks anything else."""
        run = run_above(caller.pid, self._files.root) if scope["path"].startswith("/api/tasks/") else None
        if run is None:
            return None
        task, kind, attempt, *_ = (*Path(run).relative_to(self._files.root).parts, "", "", "")
        wanted = {(method, f"/api/tasks/{task}/{rest}") for method, rest in OPEN_TO_AGENTS}
        if kind != "agents" or not attempt.isdecimal() or (scope["method"], scope["path"]) not in wanted:
            return None
        word = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").removeprefix("Bearer ")
        known = tokens.is_token_of(self._files.run_folder(task, f"{kind}/{attempt}"), word)
        return replace(caller, attempt=int(attempt)) if known else None

    def _objection_to(self, caller: Caller) -> Problem | None:
        if caller.uid not in {0, os.getuid()}:
            said = f"uid {caller.uid} is neither root nor the daemon's own; run the command as that user"
        elif (run := run_above(caller.pid, self._files.root)) is not None:
            said = f"the caller belongs to {run}: agents do not command the daemon that runs them"
        elif not _lives(caller.pid):
            said = f"process {caller.pid} ended before it was known who it was; let the caller wait for its answer"
        else:
            return None
        return Problem(403, "not-for-you", "The caller may not do this", said)


def caller_of(request: Request) -> Caller:
    """Who asks."""
    caller: Caller = request.state.caller
    return caller


def run_above(pid: int, tasks_dir: Path) -> str | None:
    """The folder of the run, if any, that a process belongs to; only runs of tasks in `tasks_dir` count.

    One that cleared its environment and ended its own holder has no such parents any more; its control group, where
    agents have one, it cannot leave without being somebody else, and it is told by that.
    """
    inside = f"{tasks_dir}/"
    group = _OF_AN_AGENT.search(_read(pid, "cgroup").decode("utf-8", "replace"))
    while pid > 0:
        words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")
        if BOOT in words and (run := next((word for word in words if word.startswith(inside)), None)):
            return run
        for variable in _read(pid, "environ").decode("utf-8", "replace").split("\0"):
            name, _, value = variable.partition("=")
            if name == MARKER and value.startswith(inside):
                return value
        pid = _parent(pid)
    return f"the control group {group[0].strip('/')}" if group else None


def _lives(pid: int) -> bool:
    """Whether a process is more than what is left of one: a dead one tells nothing of where it came from."""
    row = _read(pid, "stat")
    return bool(row) and row[row.rindex(b")") + 2 : row.rindex(b")") + 3] not in {b"Z", b"X"}


def _parent(pid: int) -> int:
    row = _read(pid, "stat")
    return int(row[row.rindex(b")") + 2 :].split()[1]) if row else 0


def _read(pid: int, name: str) -> bytes:
    """A file of a process; empty if it is gone, or is another user's and so no agent of ours."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _announced_length(scope: Scope) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _bounded(receive: Receive) -> Receive:
    """The same, refusing the request once it is longer than it may be, whatever it had announced."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_REQUEST:
            raise Refusal(TOO_LARGE)
        return message

    return bounded
