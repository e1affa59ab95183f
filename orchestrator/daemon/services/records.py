"""What a task left on disk: its journal, its state, and the artifacts of its stages and checks."""

import asyncio
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from orchestrator.core.task.failures import FailureLog
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.storage.journal import lines
from orchestrator.storage.state_document import to_document
from orchestrator.storage.store import FolderStore

ARTIFACTS = ("*.md", "*.json", "*.toml", "logs/*/*.log", "logs/*/*.jsonl")
"""Where the files of stages and checks are in a task's folder."""
NO_ARTIFACT = "state.json"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a stage or a check left; `path` is relative to the task's folder, `size` in bytes."""

    path: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordService:
    """The use cases of records; texts leave masked. Every method raises NoSuchTask and AmbiguousName."""

    index: TaskIndex
    store: FolderStore
    redact: Callable[[str], str]

    async def journal(self, name: str, since: int, limit: int) -> list[JsonObject]:
        """Return up to `limit` journal lines after number `since`, oldest first. Raises StoreError."""
        folder = await self._folder(name)

        def read() -> list[JsonObject]:
            wanted = (line for line in lines(folder) if isinstance(line["seq"], int) and line["seq"] > since)
            return [masked_object(line, self.redact) for line in islice(wanted, limit)]

        return await asyncio.to_thread(read)

    async def state(self, name: str) -> JsonObject:
        """Return the document of state.json, in its own names."""
        return masked_object(to_document(await self.index.find(name)), self.redact)

    async def failures(self, name: str) -> FailureLog:
        """Return what went wrong so far."""
        return (await self.index.find(name)).failures

    async def artifacts(self, name: str) -> list[Artifact]:
        """Return what stages and checks left, by path."""
        folder = await self._folder(name)
        return await asyncio.to_thread(lambda: list(_artifacts(folder)))

    async def artifact(self, name: str, path: str) -> str:
        """Return the text of an artifact; of a long one its end. Raises NoSuchFile."""
        return await asyncio.to_thread(self._text, await self._folder(name), path)

    async def _folder(self, name: str) -> Path:
        return self.store.folder((await self.index.find(name)).id)

    def _text(self, folder: Path, path: str) -> str:
        found = next((one for one in _artifacts(folder) if one.path == path), None)
        if found is None:
            raise NoSuchFile(f"the task has no artifact {escape_text(path)}; GET …/artifacts lists what it has")
        with os.fdopen(os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            skipped = max(0, found.size - LARGEST_TEXT // 2)
            file.seek(skipped)
            text = self.redact(file.read(LARGEST_TEXT // 2).decode("utf-8", "replace"))
        return f"[the first {skipped} bytes are only in {folder / path}]\n{text}" if skipped else text


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


def _artifacts(folder: Path) -> Iterator[Artifact]:
    for path in sorted(path for pattern in ARTIFACTS for path in folder.glob(pattern)):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and not path.name.startswith(NO_ARTIFACT):
            modified = datetime.fromtimestamp(found.st_mtime, UTC)
            yield Artifact(str(path.relative_to(folder)), found.st_size, modified)
