"""What a task left on disk: its journal, its state, and the artifacts of its stages and checks."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from pydantic import JsonValue

from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import LARGEST_TEXT
from orchestrator.server.problems import NoSuchFile
from orchestrator.server.routes.tasks import TheBackend, TheTask
from orchestrator.server.schemas.records import ArtifactLine, ArtifactList, JournalEntry, JournalPage
from orchestrator.server.schemas.views import FailuresView, to_view
from orchestrator.storage.records import Cursor, EventRecord
from orchestrator.storage.state_document import to_document
from orchestrator.storage.task_files import TaskFiles
from orchestrator.supervisor.protocols import EventLog

ARTIFACTS = ("*.md", "*.json", "*.toml", "logs/*/*.log", "logs/*/*.jsonl")
"""Where a stage's or a check's files lie in a task's folder."""
NO_ARTIFACT = "state.json"

router = APIRouter(prefix="/api/tasks/{name}", tags=["records"])


@router.get("/journal")
async def journal(
    task: TheTask,
    backend: TheBackend,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> JournalPage:
    """The decisions after number `since`, oldest first."""

    def read() -> list[Json]:
        wanted = (one.line for one in _decisions(backend.store.events, task.id) if one.number > since)
        return [masked(line, backend.redact) for line in islice(wanted, limit)]

    entries = tuple(JournalEntry.model_validate(line) for line in await asyncio.to_thread(read))
    return JournalPage(entries=entries, next_since=entries[-1].seq if entries else since)


@router.get("/state")
async def state(task: TheTask, backend: TheBackend) -> JsonValue:
    """The document of state.json, in its own names."""
    return masked(to_document(task), backend.redact)


@router.get("/failures")
async def failures(task: TheTask, backend: TheBackend) -> FailuresView:
    """What went wrong so far."""
    return to_view(FailuresView, task.failures, backend.redact)


@router.get("/artifacts")
async def artifacts(task: TheTask, backend: TheBackend) -> ArtifactList:
    """What stages and checks left behind."""
    found = await asyncio.to_thread(lambda: list(_artifacts(backend.store.files, task.id)))
    return ArtifactList(artifacts=tuple(found))


@router.get("/artifacts/{path:path}", response_class=PlainTextResponse)
async def artifact(task: TheTask, backend: TheBackend, path: str) -> str:
    """The text of one of them; of a long one its end."""
    return await asyncio.to_thread(_text, backend.store.files, task, path, backend.redact)


def masked(value: Json, redact: Callable[[str], str]) -> Json:
    """The same document with every text in it as it may leave."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [masked(item, redact) for item in value]
    if isinstance(value, dict):
        return {name: masked(item, redact) for name, item in value.items()}
    return value


def _decisions(log: EventLog, task_id: str) -> Iterator[EventRecord]:
    """Every decision of a task that can be read, oldest first."""
    found, cursor = log.read_task(task_id, Cursor(number=0))
    while found:
        yield from (one for one in found if isinstance(one, EventRecord))
        found, cursor = log.read_task(task_id, cursor)


def _artifacts(files: TaskFiles, task_id: str) -> Iterator[ArtifactLine]:
    for entry in files.entries(task_id, ARTIFACTS):
        if not entry.name.rpartition("/")[2].startswith(NO_ARTIFACT):
            yield ArtifactLine(path=entry.name, size=entry.size, modified_at=entry.modified_at)


def _text(files: TaskFiles, task: Task, path: str, redact: Callable[[str], str]) -> str:
    if all(line.path != path for line in _artifacts(files, task.id)):
        raise NoSuchFile(f"the task has no artifact {escape_text(path)}; GET …/artifacts lists what it has")
    content, beyond = files.read_tail(task.id, path, LARGEST_TEXT // 2)
    text = redact(content.decode("utf-8", "replace"))
    return f"[the first {beyond} bytes are only in {task.display_path(path)}]\n{text}" if beyond else text
