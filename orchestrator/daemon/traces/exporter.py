"""Sending each task's spans when they have ended, apart from all work.

The journal is the queue: a task whose decisions were not sent yet is only noted, and its spans are derived when they
are sent. What was sent stands in the task's folder as the number of a decision. So a receiver that is away costs no
memory, and after a crash at most what was being sent is sent again, with the same ids.
"""

import asyncio
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.daemon.history.timelines import JOURNAL, read_timeline
from orchestrator.daemon.traces.spans import Attributes, SpanRecord, spans_of
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import parsed
from orchestrator.formats.versioned import decode_versioned, encode_versioned
from orchestrator.storage.task_files import TaskFiles

log = structlog.get_logger()

NAME = "traces.json"
FORMAT = 1
GATHER_SECONDS = 3.0
"""How long decisions are gathered before their spans are sent; longer if deriving them takes long."""
MOST_SHARE = 0.05
"""Of the time that is spent on deriving and sending."""
LONGEST_PAUSE = 600.0
"""Seconds between two tries while the receiver does not answer; it doubles up to that."""
LOOK_BACK = timedelta(hours=24)
"""After a start, tasks are looked at that changed within that time."""
MOST_SPANS = 500
"""In one request."""
LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The number of the last decision whose span was sent."""

    seq: int


class Sender(Protocol):
    """Sends spans to one receiver."""

    def send(self, spans: list[SpanRecord]) -> bool:
        """Return whether all were taken. Blocks."""

    def close(self) -> None:
        """Give up what is being sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceParts:
    """What an exporter works with: `address` returns the receiver in force, `system` who serves the model."""

    address: Callable[[], str]
    system: Callable[[], str]
    files: TaskFiles
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


class TraceExporter:
    """Sends the spans of tasks whose decisions it was told of."""

    def __init__(self, parts: TraceParts) -> None:
        self._with = parts
        self._due: set[str] = set()
        self._told = asyncio.Event()
        self._sender: tuple[str, Sender] | None = None
        self._is_failing = False

    def on_decision(self, task: Task, _: Event) -> None:
        """Note that a task has something to send."""
        if self._with.address():
            self._due.add(task.id)
            self._told.set()

    def adopt(self) -> None:
        """Look at the settings again, because they changed."""
        self._told.set()

    async def run(self) -> None:
        """Send what there is, again and again."""
        try:
            await self._send_again_and_again()
        finally:
            self.close()

    async def _send_again_and_again(self) -> None:
        pause, has_looked_back = GATHER_SECONDS, False
        while True:
            if self._with.address() and not has_looked_back:
                self._due |= await asyncio.to_thread(self._unsent)
                has_looked_back = True
            if not self._due or not self._with.address():
                self._told.clear()
                await self._told.wait()
            await asyncio.sleep(pause)
            began = time.monotonic()
            was_sent = await self.send_due()
            usual = max(GATHER_SECONDS, (time.monotonic() - began) / MOST_SHARE)
            pause = min(usual if was_sent else 2 * pause, LONGEST_PAUSE)

    async def send_due(self) -> bool:
        """Send the spans of every task that has some; return whether the receiver took them."""
        while self._due and self._with.address():
            task_id = self._due.pop()
            try:
                was_sent = await asyncio.to_thread(self._send, task_id)
            except (OrchestratorError, OSError) as error:
                log.warning("traces_not_derived", task=task_id, error=str(error))
                continue
            if not was_sent:
                self._due.add(task_id)
                return False
        return True

    def close(self) -> None:
        """Give up what is being sent; it is sent after the next start."""
        if self._sender is not None:
            self._sender[1].close()

    def _send(self, task_id: str) -> bool:
        files, sender = self._with.files, self._current()
        if sender is None:
            return False
        try:
            after = decode_versioned(_Mark, files.read(task_id, NAME), FORMAT).seq
        except ValueError:
            after = 0
        timeline = read_timeline(files, task_id, self._with.redact, self._with.clock())
        spans = sorted(spans_of(task_id, timeline, after, self._facts(task_id)), key=lambda one: one.end_seq)
        for batch in _batches(spans):
            if not sender.send(batch):
                self._note_failure(sender_address=self._with.address())
                return False
            files.write(task_id, NAME, encode_versioned(_Mark(seq=batch[-1].end_seq), FORMAT))
        self._is_failing = False
        return True

    def _facts(self, task_id: str) -> Attributes:
        state = parsed(self._with.files.read(task_id, "state.json")) or {}
        pipeline = str(state.get("pipeline_variant") or state.get("pipeline") or "")
        facts = {"orchestrator.task.id": task_id, "orchestrator.pipeline": self._with.redact(pipeline)[:LONGEST_TEXT]}
        return facts | ({"gen_ai.provider.name": system} if (system := self._with.system()) else {})

    def _current(self) -> Sender | None:
        """Return the sender to the receiver in force; None if the packages are missing."""
        address = self._with.address()
        if self._sender is None or self._sender[0] != address:
            self.close()
            try:
                module = importlib.import_module("orchestrator.daemon.traces.otlp")
            except ImportError as error:
                self._note_failure(missing=str(error), mend="pip install 'orchestrator[telemetry]'")
                return None
            self._sender = address, module.OtlpSender(address)
        return self._sender[1]

    def _note_failure(self, **facts: str) -> None:
        if not self._is_failing:
            log.warning("traces_not_sent", **facts)
        self._is_failing = True

    def _unsent(self) -> set[str]:
        """Return the tasks that changed lately: the daemon may have ended before it sent what they had."""
        since = (self._with.clock() - LOOK_BACK).timestamp()
        found = set()
        for folder in self._with.files.root.iterdir():
            with suppress(OSError):
                if (folder / JOURNAL).stat().st_mtime > since:
                    found.add(folder.name)
        return found


def _batches(spans: list[SpanRecord]) -> Iterator[list[SpanRecord]]:
    """Yield the spans in batches; those that ended with the same decision stay together."""
    batch: list[SpanRecord] = []
    for one in spans:
        if len(batch) >= MOST_SPANS and one.end_seq != batch[-1].end_seq:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch
