"""An HTTP server on loopback, within the process of a test: what all stand-ins for a service have in common.

    class Greeter(LoopbackServer):
        def __init__(self) -> None:
            super().__init__(_Handler)
            self.greeted = 0

    class _Handler(Handler[Greeter]):
        def do_GET(self) -> None:
            self.stand_in.greeted += 1
            self.send(200, b"hello")

An exception in a handler stays on the handler's thread: what a test must learn of is kept, and raised by `verify`.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

StandIn = TypeVar("StandIn", bound="LoopbackServer")


class LoopbackServer:
    """Serves from `__enter__` to `__exit__`, each connection on a thread of its own."""

    def __init__(self, handler: type["Handler[Any]"], port: int = 0) -> None:
        self.closing = threading.Event()
        """Set when the server ends; an answer that keeps its client waiting ends with it."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), partial(handler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """Its address, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.verify()

    def verify(self) -> None:
        """Raise what the server found wrong while it served."""


class Handler(BaseHTTPRequestHandler, Generic[StandIn]):
    """Answers the requests of one connection until the client leaves; `stand_in` is the server's own object."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the body waits until the client has acknowledged the head

    def __init__(self, stand_in: StandIn, *connection: Any) -> None:
        self.stand_in = stand_in
        super().__init__(*connection)

    def handle(self) -> None:
        """Answer requests; a client may leave at any time."""
        with suppress(ConnectionError):
            super().handle()

    def read(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", "0")))

    def begin(self, status: int, length: int, headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Send the head of an answer whose body has so many bytes."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def send(self, status: int, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})) -> None:
        """Send a whole answer."""
        self.begin(status, len(body), headers)
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: stderr belongs to the tests."""
