"""The files of every task, found by the task's id and a name relative to the task's folder.

Code outside storage and workspaces reads and writes a task's files only through `TaskFiles`, so that another store can
keep them elsewhere. Names also come from agents and requests, so the rules are enforced here: a name stays within the
task's folder, only regular files of bounded size are read, no link is followed, and a write replaces the whole file or
nothing.
"""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Protocol

from orchestrator.formats.files import make_private, open_regular, read_file, write_atomically
from orchestrator.redaction.display import escape_text
from orchestrator.storage.records import StoreError
from orchestrator.storage.removal.trash import Trash

AGENTS, CHECKS = "agents", "logs"
"""The folders of a task that hold one run folder for each agent, named by its attempt, and for each check."""
REMOVED = "transcript-removed.json"
"""The file of an agent's run folder that says when and why its transcript was removed."""
CLI_STATE = "claude"
"""The folder of a task in which its agents' CLI keeps settings, memory and transcripts."""


class UnsafeName(StoreError):
    """A task id or a file name leads out of the task's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A regular file of a task: its name relative to the task's folder, its size in bytes, when it was written."""

    name: str
    size: int
    modified_at: datetime


class FileTail(NamedTuple):
    """The end of a file, and the number of bytes before it that were not read."""

    content: bytes
    skipped: int


class TaskFiles(Protocol):
    """The files of all tasks. Every method blocks; each raises UnsafeName, and OSError if the disk fails."""

    def __hash__(self) -> int:
        """Two objects that find the same files are equal, so that what is read through them can be cached."""

    @property
    def root(self) -> Path:
        """The folder of all tasks' folders, for watching it and for recognising a process by its run folder."""

    def create(self, task_id: str) -> None:
        """Make the folder of a new task. Raises FileExistsError."""

    def delete(self, task_id: str) -> None:
        """Delete everything of a task: it is in the trash then. A link in place of its folder is left alone."""

    def has(self, task_id: str, name: str) -> bool:
        """Return whether the task has a regular file of this name."""

    def entries(self, task_id: str, patterns: Sequence[str]) -> list[FileEntry]:
        """Return the regular files whose names match one of the glob patterns, sorted by name."""

    def read(self, task_id: str, name: str) -> bytes:
        """Return a file's content; empty if it is missing, not a regular file, or larger than LARGEST_DOCUMENT."""

    def read_text(self, task_id: str, name: str) -> str:
        """Return a file's content as text, with a replacement character for each byte that is not UTF-8."""

    def read_tail(self, task_id: str, name: str, size: int) -> FileTail:
        """Return at most the last `size` bytes of a file. Raises FileNotFoundError."""

    def write(self, task_id: str, name: str, content: bytes) -> None:
        """Replace a file atomically and wait for the disk; raises FileNotFoundError if the task has no folder."""

    def remove(self, task_id: str, name: str) -> None:
        """Remove a file, if it is there."""

    def write_first(self, task_id: str, contents: Mapping[str, bytes]) -> None:
        """Write the first files of a new task and wait for the disk; its first commit makes their names last."""

    def path_of(self, task_id: str, name: str = "") -> Path:
        """Return the path of a file, or of the whole folder, for a process that is to use it or a person."""

    def run_folder(self, task_id: str, run: str) -> Path:
        """Return the folder of a run, such as `agents/3`: its holder and the code that talks to it use real paths."""

    def run_folders(self, task_id: str) -> list[Path]:
        """Return the folders of all runs of the task, of agents and of checks."""

    def attempts(self, task_id: str) -> list[int]:
        """Return the numbers of the task's agents that have a run folder, in ascending order."""


@dataclass(frozen=True, slots=True)
class FolderTaskFiles:
    """Satisfies `TaskFiles`, which documents the methods, with one folder per task in `root`."""

    root: Path

    def create(self, task_id: str) -> None:
        make_private(self.root)
        self.path_of(task_id).mkdir(mode=0o700)

    def delete(self, task_id: str) -> None:
        folder = self.path_of(task_id)
        if not folder.is_symlink():
            Trash(self.root.parent).discard([folder])

    def has(self, task_id: str, name: str) -> bool:
        try:
            return stat.S_ISREG(self.path_of(task_id, name).lstat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def entries(self, task_id: str, patterns: Sequence[str]) -> list[FileEntry]:
        folder, found = self.path_of(task_id), []
        for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                found.append(FileEntry(name=str(path.relative_to(folder)), size=status.st_size, modified_at=modified))
        return found

    def read(self, task_id: str, name: str) -> bytes:
        return read_file(self.path_of(task_id, name)) or b""

    def read_text(self, task_id: str, name: str) -> str:
        return self.read(task_id, name).decode("utf-8", "replace")

    def read_tail(self, task_id: str, name: str, size: int) -> FileTail:
        with os.fdopen(open_regular(self.path_of(task_id, name)), "rb") as file:
            skipped = max(0, os.fstat(file.fileno()).st_size - size)
            file.seek(skipped)
            return FileTail(file.read(size), skipped)

    def write(self, task_id: str, name: str, content: bytes) -> None:
        path, folder = self.path_of(task_id, name), self.path_of(task_id)
        for parent in reversed(path.relative_to(folder).parents[:-1]):
            (folder / parent).mkdir(mode=0o700, exist_ok=True)
        write_atomically(path, content)

    def remove(self, task_id: str, name: str) -> None:
        self.path_of(task_id, name).unlink(missing_ok=True)

    def write_first(self, task_id: str, contents: Mapping[str, bytes]) -> None:
        for name, content in contents.items():
            write_atomically(self.path_of(task_id, name), content, sync_name=False)

    def path_of(self, task_id: str, name: str = "") -> Path:
        within = PurePosixPath(name)
        if task_id in {"", ".", ".."} or "/" in task_id or within.is_absolute() or ".." in within.parts:
            raise UnsafeName(f"{escape_text(f'{task_id}/{name}')} does not name a file of a task")
        return self.root / task_id / within

    def run_folder(self, task_id: str, run: str) -> Path:
        return self.path_of(task_id, run)

    def run_folders(self, task_id: str) -> list[Path]:
        found = (path for kind in (AGENTS, CHECKS) for path in _below(self.path_of(task_id, kind)))
        return [path for path in found if path.is_dir()]

    def attempts(self, task_id: str) -> list[int]:
        return sorted(int(path.name) for path in _below(self.path_of(task_id, AGENTS)) if path.name.isdecimal())


def _below(folder: Path) -> list[Path]:
    """Return what a folder contains; nothing if it is gone, even if it goes just now."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
