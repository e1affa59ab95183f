"""A program that receives mails and webhooks until it is killed: python -m tests.fakes.receiver_process MAIL HOOK FILE.

What it takes it writes into FILE, one line for each, before it answers: after a SIGKILL the sender may not know.
"""

import os
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


class _Record:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, channel: str, key: str) -> None:
        os.write(self._file, f"{channel} {key}\n".encode())


class _Mail:
    def __init__(self, record: _Record) -> None:
        self._record = record

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        content: Any = envelope.content
        head = content.decode("ascii", "replace").partition("\r\n\r\n")[0].replace("\r\n ", " ")
        lines = (line.partition(": ") for line in head.split("\r\n"))
        self._record.add("mail", next(value.strip() for name, _, value in lines if name == "X-Orchestrator-Key"))
        return "250 OK"


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

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Record a webhook and answer."""
            self.rfile.read(int(self.headers["Content-Length"]))
            record.add("hook", self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    Controller(_Mail(record), hostname="127.0.0.1", port=int(mail_port)).start()
    server = ThreadingHTTPServer(("127.0.0.1", int(hook_port)), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
