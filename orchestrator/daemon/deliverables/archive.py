"""A ZIP archive of what a task made, composed while it is sent.

`artifacts/` has the documents that its stages left, masked as everywhere; `files/` what its commits added or changed,
as they are on the branch; `LEFT-OUT.txt` names what is in neither, with the reason.
"""

import asyncio
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from orchestrator.core.task.task import Task
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from orchestrator.daemon.services.errors import NoSuchFile
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.deliverables import ChangedFiles, changed_files, contents, refusal_of
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.workspace import Workspace

LEFT_OUT = "LEFT-OUT.txt"
_NOTHING = ChangedFiles(files=(), left_out=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive under a file name; `chunks` are to be read in a thread, and may raise WorkspaceError and OSError."""

    name: str
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveService:
    """The use case of fetching what a task made."""

    index: TaskIndex
    files: TaskFiles
    workspace: Workspace
    redact: Callable[[str], str]

    async def archive(self, name: str) -> Archive:
        """Return an archive of a task's deliverables.

        Raises NoSuchTask, AmbiguousName, NoSuchFile if there is nothing yet, and TooMuch.
        """
        return await asyncio.to_thread(self._archive, await self.index.find(name))

    def _archive(self, task: Task) -> Archive:
        artifacts = self._artifacts(task)
        git, changed = self._changed(task)
        if not artifacts and not changed.files:
            raise NoSuchFile(f"{task.id} has not made anything yet")
        return Archive(name=f"{task.id}.zip", chunks=self._chunks(task, artifacts, git, changed))

    def _artifacts(self, task: Task) -> list[str]:
        """Return the names of the documents in the task's folder that its stages left, and of its summary."""
        left = [name for record in task.stages.values() for name in record.artifacts]
        names = [name for name in dict.fromkeys((*left, SUMMARY_FILE)) if not refusal_of(name)]
        return [name for name in names if self.files.has(task.id, name)]

    def _changed(self, task: Task) -> tuple[Git | None, ChangedFiles]:
        if task.source.head is None:
            return None, _NOTHING
        git = self.workspace.git_of(task.id)
        return git, changed_files(git, task.source.base_commit, task.source.head)

    def _chunks(self, task: Task, artifacts: list[str], git: Git | None, changed: ChangedFiles) -> Iterator[bytes]:
        sent, at = _Sent(), (task.timing.completed_at or task.updated_at).astimezone(UTC)
        with ZipFile(sent, "w", ZIP_DEFLATED) as archive:  # type: ignore[call-overload]  # write and flush are enough
            for name in artifacts:
                text = self.redact(self.files.read_text(task.id, name))
                archive.writestr(_entry(f"artifacts/{name}", at), text)
                yield from sent.taken()
            if git is not None:
                for file, pieces in contents(git, changed.files):
                    entry = _entry(f"files/{file.name}", at, executable=file.is_executable)
                    entry.file_size = file.size
                    with archive.open(entry, "w") as written:
                        for piece in pieces:
                            written.write(piece)
                            yield from sent.taken()
            if changed.left_out:
                archive.writestr(_entry(LEFT_OUT, at), "".join(f"{line}\n" for line in changed.left_out))
        yield from sent.taken()


class _Sent:
    """A file that cannot be sought in, and whose content is taken away as it grows."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, content: bytes) -> int:
        self._pieces.append(bytes(content))
        return len(content)

    def flush(self) -> None:
        """Do nothing: what was written can be taken at once."""

    def taken(self) -> Iterator[bytes]:
        """Yield what was written since the last time, as one piece."""
        if content := b"".join(self._pieces):
            self._pieces.clear()
            yield content


def _entry(name: str, at: datetime, *, executable: bool = False) -> ZipInfo:
    entry = ZipInfo(name, at.timetuple()[:6])
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
    return entry
