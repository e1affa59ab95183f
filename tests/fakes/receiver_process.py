"""A program that receives mails and webhooks until it is killed: python -m tests.fakes.receiver_process MAIL HOOK FILE.

What it takes it writes into FILE, one line for each, before it answers: after a SIGKILL the sender may not know.
"""

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.fakes.loopback_server import Handler, LoopbackServer


class _Record:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, channel: str, key: str) -> None:
        os.write(self._file, f"{channel} {key}\n".encode())


class _Mail:
    def __init__(self, record: _Record) -> None:
        self._record = record

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        content: Any = envelope.content
        head = content.decode("ascii", "replace").partition("\r\n\r\n")[0].replace("\r\n ", " ")
        lines = (line.partition(": ") for line in head.split("\r\n"))
        self._record.add("mail", next(value.strip() for name, _, value in lines if name == "X-Orchestrator-Key"))
        return "250 OK"


class _Hooks(LoopbackServer):
    def __init__(self, record: _Record, port: int) -> None:
        super().__init__(_Hook, port)
        self.record = record


class _Hook(Handler[_Hooks]):
    def do_POST(self) -> None:
        """Record a webhook and answer."""
        self.read()
        self.stand_in.record.add("hook", self.headers["webhook-id"])
        self.send(204)


def taken(file: Path) -> dict[str, Counter[str]]:
    """Return how often each key came, by channel."""
    found: dict[str, Counter[str]] = {"mail": Counter(), "hook": Counter()}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        channel, _, key = line.partition(" ")
        found[channel][key] += 1
    return found


def main() -> None:
    """Receive until the end of this process."""
    mail_port, hook_port, path = sys.argv[1:]
    record = _Record(path)
    Controller(_Mail(record), hostname="127.0.0.1", port=int(mail_port)).start()
    with _Hooks(record, int(hook_port)):
        signal.pause()


if __name__ == "__main__":
    main()
