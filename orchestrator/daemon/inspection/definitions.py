"""What is declared, and what is wrong with the files that declare it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.formats.table import DefinitionError, Problem
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.settings.settings import Settings

MOST_PROBLEMS = 200

_FileState = tuple[str, int, int]
"""A file's path, and when and with how many bytes it was written last."""


@dataclass(slots=True, kw_only=True)
class DefinitionService:
    """The use case of looking at the files of pipelines and roles."""

    settings: Callable[[], Settings]
    _looked_at: tuple[_FileState, ...] | None = None
    _found: tuple[Problem, ...] = ()

    async def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the files as they are now; while something is, the last good ones are in force."""
        return await asyncio.to_thread(self._problems)

    def _problems(self) -> tuple[Problem, ...]:
        folders = self.settings().definition_folders()
        now = tuple(_states(folders))
        if now != self._looked_at:
            self._found, self._looked_at = _read(folders), now
        return self._found


def _read(folders: Folders) -> tuple[Problem, ...]:
    try:
        load_definitions(folders)
    except DefinitionError as error:
        return tuple(error.problems[:MOST_PROBLEMS])
    return ()


def _states(folders: Folders) -> Iterator[_FileState]:
    for folder in (*folders.pipelines, *folders.roles):
        yield from (_state(path) for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())))


def _state(path: Path) -> _FileState:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), found.st_mtime_ns, found.st_size
