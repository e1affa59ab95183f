"""A receiver of callbacks on loopback: it records every request, and answers as it is told."""

import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import orjson


@dataclass(frozen=True, slots=True)
class Received:
    """One request; `body` is its JSON document."""

    path: str
    headers: dict[str, str]
    body: Any


class CallbackServer:
    """Serves from `__enter__` to `__exit__`; `statuses` are those of the next answers, then it is 204."""

    def __init__(self, port: int = 0) -> None:
        self.received: list[Received] = []
        self.statuses: deque[int] = deque()
        self.headers: dict[str, str] = {}
        self.flood = 0
        """Bytes that follow the head of each answer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, server: CallbackServer, *arguments: Any) -> None:
        self._callbacks = server
        super().__init__(*arguments)

    def do_POST(self) -> None:
        """Record the request and answer it."""
        ours = self._callbacks
        body = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = ours.statuses.popleft() if ours.statuses else 204
        ours.received.append(Received(self.path, dict(self.headers.items()), body))
        self.send_response(status)
        for name, value in ours.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(ours.flood))
        self.end_headers()
        try:
            for _ in range(ours.flood >> 16):
                self.wfile.write(bytes(1 << 16))
        except OSError:
            self.close_connection = True  # the other side has heard enough

    def log_message(self, *_: object) -> None:
        """Print nothing."""
