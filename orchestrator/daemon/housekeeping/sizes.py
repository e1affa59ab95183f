"""What was measured before, kept over a restart in `<data>/sizes.json`, so that not everything is measured again.

Measuring the files of 10,000 tasks anew takes minutes of reading. A file that is damaged, of another format or not
there means only that.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from orchestrator.core.retention.policy import Kind
from orchestrator.formats.disk.trees import NOTHING, Usage
from orchestrator.formats.files import read_file, sealed, unsealed, write_atomically

log = structlog.get_logger()

NAME, FORMAT = "sizes.json", 2
SAVE_EVERY = 600.0
"""Seconds between two writes of the file."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of a kind, and how many of the bytes are output that is not compressed."""

    usage: Usage = NOTHING
    plain: int = 0


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """The kinds of files in a task's folder, measured when that had this version."""

    version: int
    kinds: dict[Kind, Measured]


@dataclass(frozen=True, slots=True)
class FolderSize:
    """What a folder took at a time, a timestamp."""

    at: float
    usage: Usage


@dataclass(frozen=True, slots=True)
class Sizes:
    """All that was measured, by the ids of tasks and the names of folders."""

    tasks: dict[str, TaskSizes] = field(default_factory=dict)
    folders: dict[str, FolderSize] = field(default_factory=dict)

    def keep_only(self, tasks: Collection[str], folders: Collection[str]) -> None:
        """Forget what is gone."""
        for task in self.tasks.keys() - set(tasks):
            del self.tasks[task]
        for folder in self.folders.keys() - set(folders):
            del self.folders[folder]


class SizesFile:
    """The file of one data folder, for one thread at a time; every method blocks."""

    def __init__(self, data_dir: Path) -> None:
        self._path, self._saved_at = data_dir / NAME, 0.0

    def load(self) -> Sizes:
        """Return what was kept."""
        try:
            document = unsealed(read_file(self._path) or b"") or {}
            if document.get("format") != FORMAT:
                return Sizes()
            return msgspec.json.decode(str(document.get("sizes")), type=Sizes)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("sizes_not_read", error=str(error))
            return Sizes()

    def save(self, sizes: Sizes, now: float) -> None:
        """Keep everything, unless that was done lately; a full disk keeps the old file."""
        if 0 <= now - self._saved_at < SAVE_EVERY:
            return
        self._saved_at = now
        content = sealed({"format": FORMAT, "sizes": msgspec.json.encode(sizes).decode()})
        try:
            write_atomically(self._path, content, durable=False)
        except OSError as error:
            log.warning("sizes_not_kept", error=str(error))
