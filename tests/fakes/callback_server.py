"""A receiver of callbacks on loopback: it records every request, and answers as it is told."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import orjson

from tests.fakes.loopback_server import Handler, LoopbackServer


@dataclass(frozen=True, slots=True)
class Received:
    """One request; `body` is its JSON document."""

    path: str
    headers: dict[str, str]
    body: Any


class CallbackServer(LoopbackServer):
    """`statuses` are those of the next answers, then it is 204."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(_Handler, port)
        self.received: list[Received] = []
        self.statuses: deque[int] = deque()
        self.headers: dict[str, str] = {}
        self.flood = 0
        """Bytes that follow the head of each answer."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Handler(Handler[CallbackServer]):
    def do_POST(self) -> None:
        """Record the request and answer it."""
        ours = self.stand_in
        body = orjson.loads(self.read())
        status = ours.statuses.popleft() if ours.statuses else 204
        ours.received.append(Received(self.path, dict(self.headers.items()), body))
        self.begin(status, ours.flood, ours.headers)
        for _ in range(ours.flood >> 16):
            self.wfile.write(bytes(1 << 16))
