"""Questions that a part of the daemon answers as long as it goes on: from how long one waits follows what hangs."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.formats.files import write_atomically
from orchestrator.supervisor.inbox import Inbox

log = structlog.get_logger()

PROBE_FILE = "watchdog"
"""The file of the data folder that is written to see whether the disk answers."""
LONGEST_WORK = 2400.0
"""Seconds for which worker threads may all be at work: a git command may take 1800."""


class Probe(Protocol):
    """A part of the daemon that may hang, and how to see that.

    `name` and `fault` make a sentence: "the event loop" and "has not turned". Beyond `patience` seconds, if it is set,
    the part is given up, else as soon as it counts as hanging. `thread` is the identifier of the one that may show why.
    """

    name: str
    fault: str
    patience: float | None
    thread: int | None

    def waited(self, now: float) -> float:
        """Return for how many seconds the part owes an answer; asks again if it owes none. Never blocks."""

    def forgive(self, now: float) -> None:
        """Count from now on: nobody could answer before."""


class Question:
    """A probe that asks: `ask` hands on what is to be called, from any thread, as the answer."""

    def __init__(
        self,
        name: str,
        fault: str,
        ask: Callable[[Callable[[], None]], object],
        patience: float | None = None,
        thread: int | None = None,
    ) -> None:
        self.name, self.fault, self.patience, self.thread = name, fault, patience, thread
        self._ask = ask
        self._asked_at: float | None = None

    def waited(self, now: float) -> float:
        """Return for how many seconds the question is open; asks again if it is not."""
        asked_at = self._asked_at
        if asked_at is not None:
            return now - asked_at
        self._asked_at = now
        self._ask(self._answer)
        return 0.0

    def forgive(self, now: float) -> None:
        """Count from now on."""
        if self._asked_at is not None:
            self._asked_at = now

    def _answer(self) -> None:
        self._asked_at = None


class InboxProgress:
    """A probe of the supervisor: as long as a message waits, messages must be processed, or tried again."""

    def __init__(self, inbox: Inbox) -> None:
        self.name, self.fault = "the supervisor", "has processed no message"
        self.patience: float | None = None
        self.thread: int | None = None
        self._inbox = inbox
        self._seen, self._since = inbox.tries, time.monotonic()

    def waited(self, now: float) -> float:
        """Return for how many seconds messages wait of which none was processed."""
        tries = self._inbox.tries
        if self._inbox.is_settled or tries != self._seen:
            self._seen, self._since = tries, now
        return now - self._since

    def forgive(self, now: float) -> None:
        """Count from now on."""
        self._since = now


@dataclass(slots=True)
class DiskProbe:
    """Writes a small file durably, in a thread of its own: a disk that stalls holds up nothing else."""

    file: Path
    _refused: str = ""

    def ask(self, answer: Callable[[], None]) -> None:
        """Begin to write; a disk that refuses has answered too, which is logged once."""
        threading.Thread(target=self._write, args=(answer,), name="watchdog-disk", daemon=True).start()

    def _write(self, answer: Callable[[], None]) -> None:
        try:
            write_atomically(self.file, b"")
            refused = ""
        except OSError as error:
            refused = str(error)
        if refused and not self._refused:
            log.warning("disk_refuses_writes", file=str(self.file), error=refused)
        self._refused = refused
        answer()


def probes_of(loop: asyncio.AbstractEventLoop, workers: Executor, data_dir: Path, inbox: Inbox) -> Sequence[Probe]:
    """Return the probes of a daemon whose event loop runs in the calling thread."""
    this = threading.get_ident()
    return (
        Question("the event loop", "has not turned", loop.call_soon_threadsafe, thread=this),
        InboxProgress(inbox),
        Question("the disk", f"has not finished a write to {data_dir}", DiskProbe(data_dir / PROBE_FILE).ask),
        Question("the worker threads", "have taken up no work", workers.submit, patience=LONGEST_WORK),
    )
