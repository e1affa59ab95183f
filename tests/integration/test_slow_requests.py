"""Connections that send slowly, or nothing, or take nothing: each ends, on the Unix socket and over TCP."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from orchestrator.server.peer_auth import Bounds, PeerProtocol
from tests.fakes.in_process_daemon import PATIENCE, create_daemon, serving

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Connect:
    """Connects to a daemon."""

    connected: Callable[[], Awaitable[Streams]]
    admitted: bytes
    """A request with a valid token, after which the connection stays open."""

    async def __call__(self) -> Streams:
        """Return a new connection."""
        return await self.connected()

    async def greeted(self) -> Streams:
        """Return a new connection after a request that was admitted."""
        reader, writer = await self.connected()
        writer.write(self.admitted)
        assert (await reader.readuntil(b'"ok"}')).startswith(b"HTTP/1.1 200 ")
        return reader, writer


QUICK = Bounds(head=0.4, body=0.4, reading=0.4, connections=6, tcp_connections=4)
DRIP = 0.05
"""Seconds between two bytes of a slow request."""


@pytest.fixture(params=["unix", "tcp"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which socket is attacked."""
    return str(request.param)


@pytest_asyncio.fixture
async def connect(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connect]:
    """Connects to a daemon that waits for nobody longer than a moment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    monkeypatch.setattr(PeerProtocol, "bounds", QUICK)
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon) as client:
        url = httpx.URL((await client.post("/api/links", json={})).json()["url"])
        token = (await client.post("/api/tokens", json={"name": "reader", "scope": "view"})).json()["token"]
        await client.aclose()
        opened: list[Streams] = []

        async def connected() -> Streams:
            if kind == "unix":
                opened.append(await asyncio.open_unix_connection(daemon.settings.socket))
            else:
                opened.append(await asyncio.open_connection(url.host, url.port))
            return opened[-1]

        head = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        yield Connect(connected, head.encode())
        for _, writer in opened:
            writer.close()
    daemon.store.close()


async def dripped(connect: Connect, begin: bytes, drop: bytes, first: bytes = b"") -> bytes:
    """Send something slowly, after a `first` whole request, until the daemon has enough; return the last answer."""
    _, writer = await connect()
    address = writer.get_extra_info("peername")
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    return await asyncio.to_thread(_dripped, family, address, (first, begin, drop))


def _dripped(family: socket.AddressFamily, address: object, parts: tuple[bytes, bytes, bytes]) -> bytes:
    first, begin, drop = parts
    with socket.socket(family) as peer:
        peer.connect(address)  # type: ignore[arg-type]  # a path or a pair
        peer.settimeout(PATIENCE)
        if first:
            peer.sendall(first)
            while b'"ok"}' not in peer.recv(1 << 16):
                pass
        peer.sendall(begin)
        peer.settimeout(DRIP)
        deadline, found = time.monotonic() + PATIENCE, b""
        while time.monotonic() < deadline:
            try:
                piece = peer.recv(1 << 16)
            except TimeoutError:
                with suppress(ConnectionError):
                    peer.send(drop)
            else:
                found += piece
                if not piece:
                    return found
    raise TimeoutError("the connection goes on for ever")


async def test_a_head_that_never_ends_is_answered_with_408(connect: Connect) -> None:
    told = await dripped(connect, b"GET /healthz HTTP/1.1\r\n", b"X-More: 1\r\n")
    assert told.startswith(b"HTTP/1.1 408 ")


async def test_a_second_head_on_one_connection_is_as_bounded_as_the_first(connect: Connect) -> None:
    told = await dripped(connect, b"GET /healthz", b"z", connect.admitted)
    assert told.startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_never_ends_is_answered_with_408(connect: Connect) -> None:
    head = b"POST /csp-reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"
    assert (await dripped(connect, head, b"x")).startswith(b"HTTP/1.1 408 ")


async def test_a_connection_that_says_nothing_is_closed(connect: Connect) -> None:
    reader, _ = await connect()
    async with asyncio.timeout(PATIENCE):
        assert await reader.read() == b""


async def test_an_idle_connection_between_two_requests_stays_open(connect: Connect) -> None:
    reader, writer = await connect()
    for _ in range(2):
        writer.write(connect.admitted)
        assert (await reader.readuntil(b'"ok"}')).startswith(b"HTTP/1.1 200 ")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 2 * QUICK.head)


async def test_one_connection_too_many_is_refused_and_those_before_it_are_served(connect: Connect, kind: str) -> None:
    most = QUICK.tcp_connections if kind == "tcp" else QUICK.connections
    served = [await connect.greeted() for _ in range(most)]
    reader, _ = await connect()
    async with asyncio.timeout(PATIENCE):
        assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    served[0][1].close()
    async with asyncio.timeout(PATIENCE):
        answer = b""
        while not answer.startswith(b"HTTP/1.1 200 "):
            reader, writer = await connect()
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            with suppress(ConnectionError):  # refused before the request was read
                answer = await reader.read()


@pytest.mark.parametrize("kind", ["tcp"])
async def test_whoever_shows_nothing_valid_keeps_no_connection(connect: Connect) -> None:
    for path in ("/healthz", "/login", "/api/status", "/static/none", "/language"):
        reader, writer = await connect()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            assert b"\r\nconnection: close\r\n" in await reader.read()


@pytest.mark.parametrize("kind", ["tcp"])
async def test_strangers_give_way_the_oldest_first(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeerProtocol, "bounds", replace(QUICK, head=PATIENCE))
    known = await connect.greeted()
    strangers = [await connect() for _ in range(QUICK.tcp_connections - 1)]
    for reader, _ in strangers[:2]:
        await connect.greeted()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ConnectionResetError):
                await reader.read()
    for reader, writer in (known, strangers[2]):
        writer.write(connect.admitted)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readuntil(b'"ok"}')).startswith(b"HTTP/1.1 200 ")
