"""Receivers of notices on loopback: a mail server and a webhook, which can be stopped and started on the same port."""

import email
import socket
import threading
from collections import Counter
from email.message import EmailMessage
from email.policy import default
from types import TracebackType
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.fakes.callback_server import CallbackServer, Received


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MailServer:
    """Serves from `__enter__` to `__exit__`; `refusals` are the answers to the next mails, then it takes them."""

    def __init__(self, port: int = 0) -> None:
        self.port = port or free_port()
        self.mails: list[EmailMessage] = []
        self.refusals: list[str] = []
        self.refused_recipients: set[str] = set()
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.refused_recipients:
            return "550 no such person"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        if self.refusals:
            return self.refusals.pop(0)
        content: Any = envelope.content
        self.mails.append(email.message_from_bytes(content, EmailMessage, policy=default))
        return "250 OK"

    @property
    def keys(self) -> Counter[str]:
        """How often each notice came, by its key."""
        return Counter(str(mail["X-Orchestrator-Key"]) for mail in self.mails)

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.stop()


class Webhook(CallbackServer):
    """A receiver of webhooks."""

    @property
    def keys(self) -> Counter[str]:
        """How often each notice came, by its key."""
        return Counter(_header(one, "webhook-id") for one in list(self.received))


def _header(one: Received, name: str) -> str:
    return next(value for key, value in one.headers.items() if key.lower() == name)


class Silence:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._take, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for one in self._taken:
            one.close()

    def _take(self) -> None:
        while True:
            try:
                self._taken.append(self._socket.accept()[0])
            except OSError:
                return
