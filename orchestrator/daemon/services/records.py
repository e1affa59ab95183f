"""What a task left on disk: its journal, its state, and the artifacts of its stages and checks."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from orchestrator.core.task.failures import FailureLog
from orchestrator.core.task.task import Task
from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.storage.records import Cursor, EventRecord
from orchestrator.storage.state_document import to_document
from orchestrator.storage.task_files import FileEntry, TaskFiles
from orchestrator.supervisor.protocols import EventLog

ARTIFACTS = ("*.md", "*.json", "*.toml", "logs/*/*.log", "logs/*/*.jsonl")
"""Where the files of stages and checks are in a task's folder."""
NO_ARTIFACT = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordService:
    """The use cases of records; texts leave masked. Every method raises NoSuchTask and AmbiguousName."""

    index: TaskIndex
    events: EventLog
    files: TaskFiles
    redact: Callable[[str], str]

    async def journal(self, name: str, since: int, limit: int) -> list[JsonObject]:
        """Return up to `limit` journal lines after number `since`, oldest first. Raises StoreError."""
        task = await self.index.find(name)

        def read() -> list[JsonObject]:
            wanted = (one.line for one in _decisions(self.events, task.id) if one.number > since)
            return [masked_object(line, self.redact) for line in islice(wanted, limit)]

        return await aside(read)

    async def state(self, name: str) -> JsonObject:
        """Return the document of state.json, in its own names."""
        document = to_document(await self.index.find(name))
        return await asyncio.to_thread(masked_object, document, self.redact)

    async def failures(self, name: str) -> FailureLog:
        """Return what went wrong so far."""
        return (await self.index.find(name)).failures

    async def artifacts(self, name: str) -> list[FileEntry]:
        """Return what stages and checks left, by name."""
        task = await self.index.find(name)
        return await asyncio.to_thread(lambda: list(self._artifacts(task)))

    async def artifact(self, name: str, path: str) -> str:
        """Return the text of an artifact; of a long one its end. Raises NoSuchFile."""
        return await aside(self._text, await self.index.find(name), path)

    def _artifacts(self, task: Task) -> Iterator[FileEntry]:
        for entry in self.files.entries(task.id, ARTIFACTS):
            if not entry.name.rpartition("/")[2].startswith(NO_ARTIFACT):
                yield entry

    def _text(self, task: Task, path: str) -> str:
        if all(entry.name != path for entry in self._artifacts(task)):
            raise NoSuchFile(f"the task has no artifact {escape_text(path)}; GET …/artifacts lists what it has")
        content, skipped = self.files.read_tail(task.id, path, LARGEST_TEXT // 2)
        text = self.redact(content.decode("utf-8", "replace"))
        return f"[the first {skipped} bytes are only in {task.display_path(path)}]\n{text}" if skipped else text


def masked(value: Json, redact: Callable[[str], str]) -> Json:
    """Return the same JSON with every text redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [masked(item, redact) for item in value]
    if isinstance(value, dict):
        return masked_object(value, redact)
    return value


def masked_object(document: JsonObject, redact: Callable[[str], str]) -> JsonObject:
    """Return the same JSON object with every text in its values redacted."""
    return {name: masked(item, redact) for name, item in document.items()}


def _decisions(log: EventLog, task_id: str) -> Iterator[EventRecord]:
    """Yield every decision of a task that can be read, oldest first."""
    found, cursor = log.read_task(task_id, Cursor(number=0))
    while found:
        yield from (one for one in found if isinstance(one, EventRecord))
        found, cursor = log.read_task(task_id, cursor)
