"""`mcp`: the daemon's tools for an assistant that starts a program and talks to it on standard input and output.

The program is a bridge to /mcp on the daemon's socket. It keeps nothing but the version of the protocol, so the daemon
may be restarted meanwhile. Each line is a message; a request is answered with one line.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import httpx
import orjson
import typer

from orchestrator.cli.context import TRY_EVERY, context_of
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import object_of, text_of
from orchestrator.server.client import WRITE_TIMEOUT, DaemonUnreachable

LONGEST_LINE = 4 * 1024 * 1024
"""Bytes of a message; the daemon takes no longer ones either."""
PATIENCE = 5.0
"""Seconds that a request waits for a daemon that is away, as one is while it restarts."""
TYPES = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NO_JSON, INVALID, FAILED = -32700, -32600, -32603
"""JSON-RPC codes: a line that is no JSON, no message of the protocol, and a failure that is not the client's."""


class Bridge:
    """Hands messages on to one daemon."""

    def __init__(self, socket: Path) -> None:
        self._socket, self._version = socket, ""
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://orchestrator", timeout=WRITE_TIMEOUT
        )

    def answer(self, line: bytes) -> bytes | None:
        """Return the line that answers a message; None for one that wants no answer."""
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return _failure(None, NO_JSON, "a message is JSON on one line")
        if not isinstance(message, dict):
            return _failure(None, INVALID, "a message is a JSON object on one line")
        wants_answer, number = "id" in message, message.get("id")
        try:
            response = self._sent(line, self._headers(message), PATIENCE if wants_answer else 0.0)
        except DaemonUnreachable as error:
            return _failure(number, FAILED, str(error)) if wants_answer else None
        if not wants_answer:
            return None
        said = _object(response.content)
        if "jsonrpc" not in said:
            why = text_of(said.get("detail"), 2000) or f"the daemon answered with HTTP status {response.status_code}"
            return _failure(number, FAILED, why)
        if message.get("method") == "initialize":
            self._version = text_of(object_of(said.get("result")).get("protocolVersion"))
        return orjson.dumps({**said, "id": number}) + b"\n"

    def _headers(self, message: JsonObject) -> Mapping[str, str]:
        """Return the headers that repeat, as the protocol wants it, what is in the message."""
        given = object_of(message.get("params"))
        version = text_of(object_of(given.get("_meta")).get(VERSION_KEY)) or self._version
        named = {
            "MCP-Protocol-Version": version if message.get("method") != "initialize" else "",
            "Mcp-Method": text_of(message.get("method")),
            "Mcp-Name": text_of(given.get("name")),
        }
        return {header: text for header, text in named.items() if text.isascii() and text.isprintable() and text}

    def _sent(self, content: bytes, headers: Mapping[str, str], patience: float) -> httpx.Response:
        """Return the daemon's answer; only a message that did not reach it is sent again. Raises DaemonUnreachable."""
        given_up_at = time.monotonic() + patience
        while (response := self._post(content, headers)) is None:
            if time.monotonic() > given_up_at:
                raise DaemonUnreachable(f"no daemon answers on {self._socket}; start it with `orchestrator serve`")
            time.sleep(TRY_EVERY)
        return response

    def _post(self, content: bytes, headers: Mapping[str, str]) -> httpx.Response | None:
        """Return the daemon's answer; None if it cannot be connected to. Raises DaemonUnreachable if it fails later."""
        if not self._socket.is_socket():  # httpcore leaves a descriptor open for each connection that fails
            return None
        try:
            return self._http.post("/mcp", content=content, headers={**TYPES, **headers})
        except httpx.ConnectError:
            return None
        except httpx.TransportError as error:
            raise DaemonUnreachable(
                f"the daemon on {self._socket} did not answer ({type(error).__name__}); "
                "look whether it was done before you try again"
            ) from error


def mcp(context: typer.Context) -> None:
    """Give an assistant the tools of this daemon, over standard input and output, until the input ends.

    Register it with `claude mcp add orchestrator -- orchestrator mcp`.
    """
    bridge = Bridge(context_of(context).places().socket)
    for line in _lines(sys.stdin.buffer):
        answer = bridge.answer(line) if line else _failure(None, INVALID, f"a message has {LONGEST_LINE} bytes at most")
        if answer is not None:
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines that are not blank; an empty one stands for a line that is too long."""
    while line := stream.readline(LONGEST_LINE + 1):
        is_too_long = len(line) > LONGEST_LINE
        while is_too_long and line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)
        if is_too_long or line.strip():
            yield b"" if is_too_long else line


def _object(content: bytes) -> JsonObject:
    try:
        return object_of(orjson.loads(content))
    except orjson.JSONDecodeError:
        return {}


def _failure(number: object, code: int, message: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}) + b"\n"
