"""One conversation with a server of the Model Context Protocol; a program of its own, run by gateway.py.

It is told what to talk to in a first line of JSON on its input, and a call in each later one; it answers each with a
line. The end of its input, or SIGTERM, ends the conversation and the server. The SDK takes most of a second and 30 MB
to import: so the daemon is spared both, and what a server does to its client happens to nobody else.

The SDK's own client of processes reads lines of any length and leaves alone what a server left behind that went by
itself. So the process is held here, and only the protocol is the SDK's.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TypedDict, cast

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    TextContent,
    jsonrpc_message_adapter,
)

LEAVE, TERM = 2.0, 1.0
"""Seconds that a server has to go by itself once its input ended, and then after SIGTERM."""
REST = 0.2
"""Seconds for what it wrote before it went."""
LAST_WORDS = 2000
"""Bytes that are kept of what a server writes on stderr."""

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class McpServerSpec(TypedDict):
    """The first line: a command to start, or a `url`; seconds per request; the bytes that an answer may have."""

    command: Sequence[str]
    env: Mapping[str, str]
    url: str
    headers: Mapping[str, str]
    version: str
    patience: float
    largest: int


class TooLarge(Exception):
    """The server said more at once than an answer may have."""


class McpSession:
    """What is known of a server beside its answers: why it ended, and its last words."""

    def __init__(self, order: McpServerSpec) -> None:
        self.order, self.why, self.words = order, "", b""

    def transport(self) -> AbstractAsyncContextManager[Streams]:
        """The way to the server, which lives as long as this is entered."""
        return self._over_http() if self.order["url"] else self._with_process()

    @asynccontextmanager
    async def _over_http(self) -> AsyncIterator[Streams]:
        headers, patience = {**self.order["headers"], "Accept-Encoding": "identity"}, self.order["patience"]
        url, largest = self.order["url"], self.order["largest"]
        async with (
            httpx2.AsyncClient(headers=headers, timeout=patience, event_hooks={"response": [self._bound]}) as client,
            streamable_http_client(url, http_client=client, max_sse_event_size=largest) as streams,
        ):
            yield cast("Streams", streams)

    async def _bound(self, response: httpx2.Response) -> None:
        """Let no answer grow beyond what one may have; one that is packed could not be stopped in time."""
        if response.status_code in {401, 403}:
            self.why = "login"
        packed = response.headers.get("Content-Encoding", "identity") != "identity"
        response.stream = _Counted(response.stream, 0 if packed else self.order["largest"], self._too_large)

    def _too_large(self) -> None:
        self.why = "too large"

    @asynccontextmanager
    async def _with_process(self) -> AsyncIterator[Streams]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self.order["command"],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.order["env"],
            limit=self.order["largest"],
            start_new_session=True,
        )
        told, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        said, saying = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as tasks, told, heard, said, saying:
                tasks.start_soon(self._read, process, told)
                tasks.start_soon(_write, process, saying, told)
                tasks.start_soon(self._overhear, process)
                try:
                    yield heard, said
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
                with anyio.move_on_after(REST):
                    await self._overhear(process)

    async def _read(
        self, process: asyncio.subprocess.Process, told: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Hand on each line that is a message; whatever else a server prints there is passed over."""
        assert process.stdout  # noqa: S101 - a pipe was asked for
        async with told:
            try:
                async for line in process.stdout:
                    with suppress(ValueError):
                        await told.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))
            except ValueError:
                self._too_large()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            self.why = self.why or "ended"

    async def _overhear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr  # noqa: S101 - a pipe was asked for
        while more := await process.stderr.read(65536):
            self.words = (self.words + more)[-LAST_WORDS:]


class _Counted(httpx2.AsyncByteStream):
    """A body that stops where it is larger than it may be."""

    def __init__(self, inner: object, largest: int, stopped: Callable[[], None]) -> None:
        self._inner, self._largest, self._stopped = cast("httpx2.AsyncByteStream", inner), largest, stopped

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._inner:
            count += len(chunk)
            if count > self._largest:
                self._stopped()
                raise TooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ReplyProtocol(asyncio.StreamReaderProtocol):
    """Our input, whose end is heard of also while a call is under way: then nobody wants the answer."""

    def __init__(self, reader: asyncio.StreamReader, ended: Callable[[], object]) -> None:
        super().__init__(reader)
        self._ended = ended

    def eof_received(self) -> bool | None:
        self._ended()
        return super().eof_received()


async def _write(
    process: asyncio.subprocess.Process,
    saying: MemoryObjectReceiveStream[SessionMessage],
    told: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    """Hand on what is said; a server that listens no more has nothing more to tell."""
    assert process.stdin  # noqa: S101 - a pipe was asked for
    with saying, told, suppress(OSError):
        async for one in saying:
            process.stdin.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let the server go, and end all that is left of its session."""
    assert process.stdin  # noqa: S101 - a pipe was asked for
    process.stdin.close()
    for pause, number in ((LEAVE, signal.SIGTERM), (TERM, signal.SIGKILL), (TERM, signal.SIGKILL)):
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while process.returncode is None:  # noqa: ASYNC110 - wait() waits for pipes too, which children hold
                    await asyncio.sleep(0.01)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)


async def _converse(talk: McpSession, line_of: Callable[[], Awaitable[bytes]]) -> None:
    info = Implementation(name="orchestrator", version=talk.order["version"])
    patience = talk.order["patience"]
    async with Client(talk.transport(), read_timeout_seconds=patience, client_info=info, cache=None) as client:
        while line := await line_of():
            call = json.loads(line)
            params = CallToolRequestParams(name=call["tool"], arguments=call["arguments"])
            try:
                result = await client.session.send_request(CallToolRequest(params=params), CallToolResult)
            except MCPError as error:
                if talk.why or error.code == REQUEST_TIMEOUT:
                    raise
                _say(refused=error.message)
                continue
            if result.structured_content and not result.is_error:
                _say(answer=result.structured_content)
            else:
                text = next((one.text for one in result.content if isinstance(one, TextContent)), "")
                _say(text=text, is_error=result.is_error)


def _say(**answer: object) -> None:
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()


def _first(error: BaseException) -> BaseException:
    """What happened, below the groups that tasks make of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _kind(error: BaseException) -> str:
    match error:
        case MCPError(error=told) if told.code == REQUEST_TIMEOUT:
            return "timeout"
        case MCPError(error=told) if told.code == CONNECTION_CLOSED:
            return "ended"
        case MCPError() | RuntimeError() | ValueError():
            return "unfit"
        case TooLarge():
            return "too large"
        case OSError():
            return "start"
        case _:
            return "unreachable"


async def _main() -> None:
    loop, whole = asyncio.get_running_loop(), asyncio.current_task()
    assert whole is not None  # noqa: S101 - this runs in one
    stopping = asyncio.Event()

    def stop() -> None:
        if not stopping.is_set():  # a second time would break off the end of the server
            stopping.set()
            whole.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: _ReplyProtocol(reader, stop), sys.stdin)
    talk = McpSession(cast("McpServerSpec", json.loads(await reader.readline())))
    try:
        await _converse(talk, reader.readline)
    except Exception as whole_error:  # noqa: BLE001 - whatever a server brings about is told, and ends this program
        error = _first(whole_error)
        words = talk.words.decode("utf-8", "replace")
        why = getattr(error, "strerror", None) or str(error)
        _say(failed=talk.why or _kind(error), why=why[:LAST_WORDS], words=words)


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(_main())
