"""One conversation with a server of the Model Context Protocol: a program of its own, run by gateway.py.

The first line of its input says what to talk to, each later one is a call; it answers each call with a line. All are
JSON. The end of its input, or SIGTERM, ends the conversation and the server.

It is a program of its own because the SDK takes two seconds and 25 to 60 MB to import, which the daemon is spared, and
because a hostile server can make its client use any amount of memory: here the kernel limits it. Whatever the server
started is a descendant of this program, which ends last and leaves none of it behind.
"""

import asyncio
import ctypes
import json
import logging
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypedDict, cast

import httpx2
import psutil
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolResult, Implementation, TextContent

MEMORY = 256 * 1024 * 1024
"""Bytes that a conversation may add to the address space of this program."""
LONGEST_LINE = 16 * 1024 * 1024
_PR_SET_CHILD_SUBREAPER = 36


class McpServerSpec(TypedDict):
    """The first line: a command to start, or a `url`; seconds per request; the bytes that an answer may have."""

    command: Sequence[str]
    env: Mapping[str, str]
    url: str
    headers: Mapping[str, str]
    version: str
    patience: float
    largest: int


class McpConnection:
    """The server of a conversation; `login_refused` once it has answered with HTTP status 401 or 403."""

    def __init__(self, spec: McpServerSpec) -> None:
        self.spec, self.login_refused = spec, False

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """The SDK's transport, within the limit of memory; a process that is started does not inherit that limit."""
        if self.spec["command"]:
            program, *arguments = self.spec["command"]
            async with stdio_client(
                StdioServerParameters(command=program, args=arguments, env=dict(self.spec["env"]))
            ) as streams:
                _limit_memory()
                yield streams
            return
        _limit_memory()
        hooks = {"response": [self._note_login]}
        async with (
            httpx2.AsyncClient(
                headers=self.spec["headers"], timeout=self.spec["patience"], event_hooks=hooks
            ) as client,
            streamable_http_client(
                self.spec["url"], http_client=client, max_sse_event_size=self.spec["largest"]
            ) as streams,
        ):
            yield streams

    async def _note_login(self, response: httpx2.Response) -> None:
        self.login_refused = self.login_refused or response.status_code in {401, 403}


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MEMORY, hard))


async def _converse(server: McpConnection, calls: "asyncio.Queue[bytes]") -> None:
    """Make the calls one by one until the server fails or this is cancelled."""
    info, patience = Implementation(name="orchestrator", version=server.spec["version"]), server.spec["patience"]
    async with Client(server.connected(), read_timeout_seconds=patience, client_info=info, cache=None) as client:
        while True:
            call = json.loads(await calls.get())
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
            except MCPError as error:
                if server.login_refused or error.error.code in {REQUEST_TIMEOUT, CONNECTION_CLOSED}:
                    raise
                _say({"refused": error.message})
            else:
                _say(_answer(result), server.spec["largest"])


def _answer(result: CallToolResult) -> dict[str, object]:
    if result.structured_content and not result.is_error:
        return {"answer": result.structured_content}
    text = next((one.text for one in result.content if isinstance(one, TextContent)), "")
    return {"text": text, "is_error": result.is_error}


def _say(answer: Mapping[str, object], largest: int = LONGEST_LINE) -> None:
    line = json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")
    sys.stdout.buffer.write((line if len(line) <= largest else b'{"failed":"too large"}') + b"\n")
    sys.stdout.flush()


def _failure(server: McpConnection, error: BaseException) -> dict[str, object]:
    """Return what ended a conversation, in a word and in the error's own words."""
    found = list(_errors(error))
    error = next((one for one in found if isinstance(one, MemoryError)), found[0])
    why = getattr(error, "strerror", None) or str(error)
    return {"failed": "login" if server.login_refused else _kind(error), "why": why[:2000]}


def _errors(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, each with what it was raised from: a library may wrap the one that says most."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _errors(one)
        return
    yield error
    if cause := error.__cause__ or error.__context__:
        yield from _errors(cause)


def _kind(error: BaseException) -> str:
    match error:
        case MCPError(error=told) if told.code == REQUEST_TIMEOUT:
            return "timeout"
        case MCPError(error=told) if told.code == CONNECTION_CLOSED:
            return "ended"
        case MemoryError():
            return "too large"
        case MCPError() | RuntimeError() | ValueError():
            return "unfit"
        case OSError():
            return "start"
        case _:
            return "unreachable"


async def _read(reader: asyncio.StreamReader, calls: "asyncio.Queue[bytes]", stop: Callable[[], object]) -> None:
    """Hand on the calls; at the end of the input nobody wants an answer any more."""
    while line := await reader.readline():
        calls.put_nowait(line)
    stop()


async def _main() -> None:
    loop, whole = asyncio.get_running_loop(), asyncio.current_task()
    assert whole is not None  # noqa: S101 - this runs in one

    def stop() -> None:
        if not whole.cancelling():  # a second cancellation would break off the end of the server
            whole.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server = McpConnection(cast("McpServerSpec", json.loads(await reader.readline())))
    calls: asyncio.Queue[bytes] = asyncio.Queue()
    reading = asyncio.create_task(_read(reader, calls, stop))
    try:
        await _converse(server, calls)
    except Exception as error:  # noqa: BLE001 - whatever a server brings about is told, and ends this program
        _say(_failure(server, error))
    finally:
        reading.cancel()


def _kill_descendants() -> None:
    """Kill what the server left behind, also what has left its session: orphans become children of this program."""
    for _ in range(5):
        left = psutil.Process().children(recursive=True)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=1)


if __name__ == "__main__":
    logging.disable()  # the SDK logs to stderr, which is for the server's last words
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(_main())
    finally:
        _kill_descendants()
