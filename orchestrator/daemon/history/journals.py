"""Pages of a task's journal, and single lines of it, found without reading all of it as JSON."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import orjson

from orchestrator.core.events.event_text import describe_event
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.journal_facts import Decision, read_decision, text_in
from orchestrator.daemon.history.timelines import JOURNAL
from orchestrator.daemon.services.errors import NoSuchFile, StoreError
from orchestrator.daemon.services.records import masked_object
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import LARGEST_DOCUMENT, open_regular, parsed
from orchestrator.storage.task_files import TaskFiles

PAGE = 200
"""How many decisions a page holds: numbers 1 to 200, 201 to 400 and so on."""
LONGEST_LINE = 256 * 1024
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One decision: its number, when it was taken, its event by name and in words, and what it led from and to."""

    seq: int
    at: datetime
    trigger: str
    text: str
    before: str
    after: str

    @property
    def is_transition(self) -> bool:
        """Whether the status, the stage or the agent's status changed."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalPage:
    """The decisions from number `first` to `last`, as far as there are any; `newest` is the journal's last one."""

    lines: tuple[JournalLine, ...]
    first: int
    last: int
    newest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalService:
    """Reads journals for people; `redact` makes texts fit to leave.

    Every method raises NoSuchTask, AmbiguousName and StoreError.
    """

    index: TaskIndex
    files: TaskFiles
    redact: Callable[[str], str]

    async def page(self, name: str, seq: int | None = None) -> JournalPage:
        """Return the page with a decision; without a number the newest."""
        return await aside(self._page, await self.index.find_id(name), seq)

    async def line(self, name: str, seq: int) -> str:
        """Return a whole decision as indented JSON, of a very long one the beginning. Raises NoSuchFile."""
        return await aside(self._line, await self.index.find_id(name), seq)

    def _page(self, task_id: str, seq: int | None) -> JournalPage:
        wanted, newest, found = None if seq is None else max(0, seq - 1) // PAGE, 0, list[bytes]()
        here = 0
        for number, raw in self._lines(task_id):
            page = (number - 1) // PAGE
            if wanted is None and page != here:
                found.clear()
            here, newest = page, max(newest, number)
            if wanted is None or page == wanted:
                found.append(raw)
        shown = here if wanted is None else wanted
        lines = (self._shown(decision) for raw in found if (decision := read_decision(parsed(raw))))
        return JournalPage(lines=tuple(lines), first=shown * PAGE + 1, last=(shown + 1) * PAGE, newest=newest)

    def _line(self, task_id: str, seq: int) -> str:
        raw = next((raw for number, raw in self._lines(task_id) if number == seq), b"")
        document = parsed(raw)
        if document is None:
            raise NoSuchFile(f"the journal of {task_id} has no decision {seq}")
        text = orjson.dumps(masked_object(document, self.redact), option=orjson.OPT_INDENT_2).decode()
        return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}\n[{len(text) - LONGEST_LINE} more]"

    def _lines(self, task_id: str) -> Iterator[tuple[int, bytes]]:
        """Yield every line of the journal with its number, and leave out what has none."""
        try:
            descriptor = open_regular(self.files.path_of(task_id, JOURNAL))
        except FileNotFoundError:
            raise StoreError(f"the journal of {task_id} is missing") from None
        usual = re.compile(rb'\{"seq":(\d{1,18}),"timestamp":"[^"]*","task_id":"%b",' % re.escape(task_id.encode()))
        with os.fdopen(descriptor, "rb") as file:
            while raw := file.readline(LARGEST_DOCUMENT):
                if begun := usual.match(raw):
                    yield int(begun[1]), raw
                elif (number := _number_of(parsed(raw), task_id)) is not None:
                    yield number, raw

    def _shown(self, decision: Decision) -> JournalLine:
        return JournalLine(
            seq=decision.seq,
            at=decision.at,
            trigger=decision.trigger,
            text=self.redact(describe_event(decision.trigger, decision.event)),
            before=text_in(decision.line.get("from")),
            after=text_in(decision.line.get("to")),
        )


def _number_of(line: JsonObject | None, task_id: str) -> int | None:
    number = line.get("seq") if line is not None and line.get("task_id") == task_id else None
    return number if isinstance(number, int) else None
