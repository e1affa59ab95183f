"""Submitting what came in by itself exactly once, whatever crash comes between.

Before a task is committed, its id is noted under the key of what it is made from, and the key in the task's folder.
After a crash the noted task is looked for: if it was committed it is the one, else the submission is made again.
"""

import asyncio
import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from orchestrator.core.task.task import Task
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.task_factory import Submission
from orchestrator.errors import NoSuchTask
from orchestrator.formats.files import make_private, parsed
from orchestrator.formats.versioned import encode_versioned, read_versioned, write_versioned
from orchestrator.storage.records import UncommittedTask, UnreadableTask
from orchestrator.storage.task_files import TaskFiles

FORMAT = 1
ORIGIN_FILE = "origin.json"
"""In the folder of a task that came in by itself: the key of what it was made from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Note:
    """The task that is made under a key."""

    key: str
    task: str


class SubmitsOnce(Protocol):
    """Submits once under a key, and forgets keys that are noted elsewhere."""

    async def submit(self, key: str, submission: Submission, by: str) -> str:
        """Return the id of the task that was submitted under the key, now or before. Raises what `submit` raises."""

    async def forget(self, key: str) -> None:
        """Forget a key, because its outcome is noted elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceSubmitter:
    """Submits under keys that are noted in `folder` of the data folder, which no agent can write."""

    folder: Path
    submissions: SubmissionService
    index: TaskIndex
    files: TaskFiles

    async def submit(self, key: str, submission: Submission, by: str) -> str:
        """Return the id of the task that was submitted under the key, now or before. Raises what `submit` raises."""
        noted = await asyncio.to_thread(self._noted, key)
        if noted and await self._is_committed(noted, key):
            return noted
        note = partial(self._note, key)
        task: Task = await self.submissions.submit(submission, submission.after, by, on_created=note)
        return task.id

    async def forget(self, key: str) -> None:
        """Forget a key, because its outcome is noted elsewhere."""
        await asyncio.to_thread(self._path(key).unlink, missing_ok=True)

    async def _is_committed(self, task_id: str, key: str) -> bool:
        try:
            await self.index.find(task_id)
        except (NoSuchTask, UncommittedTask):
            return False
        except UnreadableTask:
            pass  # it is there, whatever became of its files
        content = await asyncio.to_thread(self.files.read, task_id, ORIGIN_FILE)
        return (parsed(content) or {}).get("key") == key

    def _noted(self, key: str) -> str:
        found = read_versioned(_Note, self._path(key), FORMAT)
        return found.task if found is not None and found.key == key else ""

    def _note(self, key: str, task_id: str) -> None:
        self.files.write_first(task_id, {ORIGIN_FILE: encode_versioned({"key": key}, FORMAT)})
        make_private(self.folder)
        write_versioned(self._path(key), _Note(key=key, task=task_id), FORMAT)

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}.json"
